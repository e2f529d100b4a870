# syntax=docker/dockerfile:1
FROM python:3.13-slim AS build
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements.uv.lock requirements.server.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.uv.lock \
    && python -m venv --without-pip /venv \
    && uv pip install --no-cache --python /venv/bin/python --require-hashes -r requirements.server.lock

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --home-dir /nonexistent authsvc
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /venv /venv
WORKDIR /srv/authsvc
COPY manage.py gunicorn.conf.py LICENSE ./
COPY authsvc authsvc
COPY accounts accounts
COPY tokens tokens
COPY oauthproviders oauthproviders
COPY mailer mailer
COPY templates templates
RUN python -m compileall -q . && install -d -o authsvc .data
USER authsvc
EXPOSE 8081
STOPSIGNAL SIGTERM
# The port is the first of these that is set, as in the service itself.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["python", "-c", "import os, urllib.request as u; e = os.environ.get; u.urlopen(f\"http://127.0.0.1:{e('AUTH_API_PORT') or e('AUTH_PORT') or e('PORT') or 8081}/health\", timeout=2)"]
CMD ["python", "manage.py", "serve"]
