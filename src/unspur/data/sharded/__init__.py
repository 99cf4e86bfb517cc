"""Images in WebDataset tar shards with an index, which allows to read single images in any order.

shards/train-000000.tar    000000000.jpg, 000000000.cls, 000000000.json, 000000001.jpg, ...
shards/index.json          classes, groups, names and sizes of the shards, the checksum of the index
shards/index.safetensors   for each image its shard, offset, size, label, split, group, name and sha256
"""
