"use strict";
// Heatmaps are drawn here, from the values of the patches; the report holds no pictures of them.
piaa.heat = (() => {
  // One axis of a window from `first` to `last` (in pixels): for each pixel the two cells it lies
  // between, how far it is from the first, and its weight, which falls to 0 at the window's edge.
  function along(length, first, last, cells) {
    const start = Math.max(0, Math.ceil(first - 0.5));
    const stop = Math.max(start, Math.min(length, Math.ceil(last - 0.5)));
    const out = [];
    for (let pixel = start; pixel < stop; pixel++) {
      const at = ((pixel + 0.5 - first) * cells) / (last - first);
      const place = Math.min(Math.max(at - 0.5, 0), cells - 1);
      const cell = Math.min(Math.floor(place), Math.max(cells - 2, 0));
      out.push({
        pixel, cell, next: Math.min(cell + 1, cells - 1), mix: place - cell,
        weight: Math.min(Math.max(Math.min(at, cells - at), 1e-6), 1),
      });
    }
    return out;
  }

  // Values of patches at the geometry of the picture, (height * width); NaN where no window looked.
  // The same as piaa.heatmaps.on_image.
  function onImage(values, grid, boxes, height, width) {
    const total = new Float64Array(height * width);
    const weight = new Float64Array(height * width);
    const [rows, columns] = grid;
    boxes.forEach(([top, left, bottom, right], window) => {
      const down = along(height, top * height, bottom * height, rows);
      const across = along(width, left * width, right * width, columns);
      const first = window * rows * columns;
      for (const y of down) {
        for (const x of across) {
          const upper = first + y.cell * columns;
          const lower = first + y.next * columns;
          const above = values[upper + x.cell] * (1 - x.mix) + values[upper + x.next] * x.mix;
          const below = values[lower + x.cell] * (1 - x.mix) + values[lower + x.next] * x.mix;
          const w = y.weight * x.weight;
          total[y.pixel * width + x.pixel] += w * (above * (1 - y.mix) + below * y.mix);
          weight[y.pixel * width + x.pixel] += w;
        }
      }
    });
    return total.map((sum, i) => (weight[i] ? sum / weight[i] : NaN));
  }

  const COOL = [38, 112, 196];
  const WARM = [226, 84, 34];

  // Color and opacity of a share in [0, 1], or in [-1, 1] of a difference.
  function color(share, signed) {
    if (signed) return [...(share < 0 ? COOL : WARM), Math.abs(share)];
    const table = piaa.index.colors;
    const place = Math.min(Math.max(share, 0), 1) * (table.length - 1);
    const at = Math.min(Math.floor(place), table.length - 2);
    const mixed = table[at].map((channel, i) => channel + (place - at) * (table[at + 1][i] - channel));
    // What is cold stays see-through: the photograph is the point, the color says where to look.
    return [...mixed, 0.15 + 0.75 * share];
  }

  // Limits of the colors, the same for all kinds of one class so that they can be compared.
  function limit(kinds, signed) {
    const shown = signed ? [kinds.difference] : Object.entries(kinds).filter(([kind]) => kind !== "difference").map(([, v]) => v);
    return Math.max(1e-6, ...shown.map((values) => values.reduce((most, v) => Math.max(most, Math.abs(v)), 0)));
  }

  const LONG_SIDE = 320;

  function draw(canvas, kinds, kind, boxes, [rows, columns]) {
    const scale = LONG_SIDE / Math.max(rows, columns);
    canvas.height = Math.max(1, Math.round(rows * scale));
    canvas.width = Math.max(1, Math.round(columns * scale));
    const signed = kind === "difference";
    const most = limit(kinds, signed);
    const values = onImage(kinds[kind], piaa.index.grid, boxes, canvas.height, canvas.width);
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    values.forEach((value, i) => {
      if (Number.isNaN(value)) {
        // Not seen by the encoder: grey stripes.
        const stripe = (i % canvas.width + Math.floor(i / canvas.width)) % 12 < 6;
        image.data.set([128, 128, 128, stripe ? 170 : 120], 4 * i);
        return;
      }
      const [red, green, blue, alpha] = color(value / most, signed);
      image.data.set([red, green, blue, 255 * alpha], 4 * i);
    });
    context.putImageData(image, 0, 0);
    return most;
  }

  function drawLegend(canvas, signed) {
    const context = canvas.getContext("2d");
    const image = context.createImageData(256, 1);
    for (let i = 0; i < 256; i++) {
      const [red, green, blue, alpha] = color(signed ? i / 127.5 - 1 : i / 255, signed);
      image.data.set([red, green, blue, 255 * alpha], 4 * i);
    }
    context.putImageData(image, 0, 0);
  }

  // (x, y, width, height) in percent of the picture of a patch's cell.
  function cellBox(cell, boxes) {
    const [rows, columns] = piaa.index.grid;
    const [top, left, bottom, right] = boxes[Math.floor(cell / (rows * columns))];
    const place = cell % (rows * columns);
    const height = (bottom - top) / rows;
    const width = (right - left) / columns;
    return [left + (place % columns) * width, top + Math.floor(place / columns) * height, width, height].map((v) => 100 * v);
  }

  return { onImage, draw, drawLegend, cellBox };
})();
