"""The messages of proto/*.proto of this project, as Python's own protobuf library reads them: graph_pb2, recipe_pb2, ..."""
