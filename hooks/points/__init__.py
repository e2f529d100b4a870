"""The objects that the app registers at the extension points of lower apps."""
