"""From a stream of features to everything that scores images: gathered, finished in closed form, reported."""
