"""Class names of the benchmarks, as the paper's code asks an encoder for them."""

from __future__ import annotations

from typing import Final

# The devkit's own words, and the words the paper uses in prompts.
VOC: Final = {
    "aeroplane": "aeroplane", "bicycle": "bicycle", "bird": "bird", "boat": "boat",
    "bottle": "bottle", "bus": "bus", "car": "car", "cat": "cat", "chair": "chair", "cow": "cow",
    "diningtable": "dining table", "dog": "dog", "horse": "horse", "motorbike": "motorbike",
    "person": "person", "pottedplant": "potted plant", "sheep": "sheep", "sofa": "sofa",
    "train": "train", "tvmonitor": "tv monitor",
}  # fmt: skip

# In the order of COCO's category ids, which have gaps.
COCO: Final = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat",
    "traffic light", "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog",
    "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "backpack", "umbrella",
    "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard", "sports ball", "kite",
    "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange",
    "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant",
    "bed", "dining table", "toilet", "tv", "laptop", "mouse", "remote", "keyboard", "cell phone",
    "microwave", "oven", "toaster", "sink", "refrigerator", "book", "clock", "vase", "scissors",
    "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip

NUS: Final = (
    "airport", "animal", "beach", "bear", "birds", "boats", "book", "bridge", "buildings", "cars",
    "castle", "cat", "cityscape", "clouds", "computer", "coral", "cow", "dancing", "dog",
    "earthquake", "elk", "fire", "fish", "flags", "flowers", "food", "fox", "frost", "garden",
    "glacier", "grass", "harbor", "horses", "house", "lake", "leaf", "map", "military", "moon",
    "mountain", "nighttime", "ocean", "person", "plane", "plants", "police", "protest", "railroad",
    "rainbow", "reflection", "road", "rocks", "running", "sand", "sign", "sky", "snow", "soccer",
    "sports", "statue", "street", "sun", "sunset", "surf", "swimmers", "tattoo", "temple", "tiger",
    "tower", "town", "toy", "train", "tree", "valley", "vehicle", "water", "waterfall", "wedding",
    "whales", "window", "zebra",
)  # fmt: skip
