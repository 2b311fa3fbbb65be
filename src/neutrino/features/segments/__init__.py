"""Segments of networks and ranges of segmentation ids as objects of the API, and inventories of segments in Placement."""
