"""Traces and figures of the running service, for who collects them; nothing of it is loaded while it is off.

`in_process` starts and stops it in each serving process. Spans: `middleware` (whose requests), `request_spans`,
`tracing` (what leaves the process). Figures are recorded through `authsvc.observability.metrics` into `figures`, and
handed out by `prometheus` or `push`. Only the modules that `in_process` loads by name need the extra `telemetry`.
"""
