"""The recognizer as a service: an HTTP API and one page. Made by `piaa.serve.app.create_app`.

The way of a request: `security` (who may ask), `bodies` (bytes to images, within limits), `engine`
(`decoding` in processes apart, `batching` before the encoder, a memory of features), `answers`.
"""
