// Heatmaps: numbers on the patch grid -> colors over the photograph.

// Dark violet over red to pale yellow, lightness rising evenly: piaa.heatmaps.COLORS.
const COLORS = [
  [37, 1, 104], [85, 0, 131], [135, 19, 134], [182, 42, 122], [224, 70, 102],
  [254, 106, 72], [255, 157, 80], [255, 200, 110], [255, 239, 146],
];
// Colors reach to the greatest value, but no less than this: what is nowhere shall not glow.
const LEAST_TOP = 0.5;
const FACTOR = 16;

function color(level) {
  const place = Math.max(0, Math.min(1, level)) * (COLORS.length - 1);
  const low = Math.min(Math.floor(place), COLORS.length - 2);
  return COLORS[low].map((channel, i) => channel + (place - low) * (COLORS[low + 1][i] - channel));
}

// Draws `heat` (an answer of /v1/heatmap) on a canvas that lies over the photograph.
export function draw(canvas, heat) {
  const rows = heat.grid.length;
  const columns = heat.grid[0].length;
  const top = Math.max(LEAST_TOP, ...heat.grid.flat());
  const cells = new OffscreenCanvas(columns, rows);
  const pixels = new ImageData(columns, rows);
  heat.grid.flat().forEach((value, i) => {
    const [red, green, blue] = color(value / top);
    pixels.data.set([red, green, blue, 85 + 125 * Math.min(1, value / top)], 4 * i);
  });
  cells.getContext("2d").putImageData(pixels, 0, 0);
  canvas.width = columns * FACTOR;
  canvas.height = rows * FACTOR;
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(cells, 0, 0, canvas.width, canvas.height);
  const [first, left, last, right] = heat.box;
  canvas.style.top = `${(100 * first) / heat.height}%`;
  canvas.style.left = `${(100 * left) / heat.width}%`;
  canvas.style.height = `${(100 * (last - first)) / heat.height}%`;
  canvas.style.width = `${(100 * (right - left)) / heat.width}%`;
}

// Where a heatmap is highest, in words, for those who do not see it.
export function whereabouts(heat) {
  let best = [0, 0];
  heat.grid.forEach((row, r) => row.forEach((value, c) => {
    if (value > heat.grid[best[0]][best[1]]) best = [r, c];
  }));
  const third = (index, count, names) => names[Math.min(2, Math.floor((3 * (index + 0.5)) / count))];
  const down = third(best[0], heat.grid.length, ["top", "middle", "bottom"]);
  const across = third(best[1], heat.grid[0].length, ["left", "center", "right"]);
  return down === "middle" && across === "center" ? "in the center" : `at the ${down} ${across}`;
}
