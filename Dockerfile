# syntax=docker/dockerfile:1
# The service on Debian's Python. The image contains no installer (pip, uv) and no compiler.
FROM debian:trixie-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv python3-dev gcc libc6-dev
WORKDIR /build
COPY requirements.uv.lock requirements.server.lock requirements.compiled.lock ./
RUN python3 -m venv tools \
    && tools/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.uv.lock \
    && python3 -m venv --without-pip /venv \
    && tools/bin/uv pip install --no-cache --link-mode=copy --python /venv/bin/python --require-hashes \
        -r requirements.server.lock -r requirements.compiled.lock
# Removes translations except Django's own, tests, Redoc (unused; the API page is Swagger UI), and files for
# compilers, debuggers and type checkers.
RUN find /venv -depth \( \( -name LC_MESSAGES -a ! -path '*/django/conf/locale/*' \) -o -name tests -o -path '*_sidecar/redoc' \) -type d -exec rm -r {} + \
    && find /venv -type f \( -name '*.pyi' -o -name '*.c' -o -name '*.cpp' -o -name '*.h' -o -name '*.js.map' -o -name '*.po' \) -delete \
    && find /venv -name '*.so' -exec strip --strip-unneeded {} +
WORKDIR /srv/authsvc
COPY manage.py gunicorn.conf.py LICENSE ./
COPY authsvc authsvc
COPY accounts accounts
COPY tokens tokens
COPY oauthproviders oauthproviders
COPY oauthserver oauthserver
COPY hooks hooks
COPY mailer mailer
COPY locale locale
COPY templates templates
# Compiles only the modules that the service loads at start and for telemetry, by importing them. The service never loads
# the rest, which is more than half of the installed code.
RUN python3 -m compileall -q . \
    && export AUTH_SITE_URL=http://build AUTH_API_EXTERNAL_URL=http://build AUTH_DB_DRIVER=postgres \
        DATABASE_URL=postgres://build AUTH_JWT_SECRET=only-while-the-image-is-being-built \
    && /venv/bin/python manage.py check && /venv/bin/python manage.py serve --version \
    && cd /venv/lib/python3*/site-packages && python3 -m compileall -q google grpc opentelemetry prometheus_client

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 ca-certificates \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
    && useradd --system --uid 10001 --no-create-home --home-dir /nonexistent authsvc
COPY --from=build /venv /venv
COPY --from=build /srv/authsvc /srv/authsvc
WORKDIR /srv/authsvc
# The service writes only below /tmp, where the development inbox stores its messages.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 AUTH_MAILER_DEV_INBOX_FOLDER=/tmp/inbox
# A number, from which Kubernetes sees that it is not root.
USER 10001
EXPOSE 8081
STOPSIGNAL SIGTERM
# The port is the first of these variables that is set, as in the service.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["python", "-c", "import os, urllib.request as u; e = os.environ.get; u.urlopen(f\"http://127.0.0.1:{e('AUTH_API_PORT') or e('AUTH_PORT') or e('PORT') or 8081}/health\", timeout=2)"]
CMD ["python", "manage.py", "serve"]
