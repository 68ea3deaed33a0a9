# Memory Hub: web and worker in one container, with all data in /data (docs/operate.md).

FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/memoryhub \
    && pip --python /opt/memoryhub/bin/python install --no-cache-dir --require-hashes --only-binary :all: \
        --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY templates templates
COPY memoryhub memoryhub
COPY memories memories
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel . \
    && pip --python /opt/memoryhub/bin/python install --no-cache-dir --no-deps /wheel/memoryhub-*.whl

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home memoryhub \
    && install --directory --owner memoryhub --mode 700 /data \
    && pip uninstall --yes pip
COPY --from=build /opt/memoryhub /opt/memoryhub
ENV PATH="/opt/memoryhub/bin:$PATH" MEMORYHUB_VAR=/data PYTHONDONTWRITEBYTECODE=1
USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=2m \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["sh", "-c", "memoryhub migrate --verbosity 0 && memoryhub check --deploy && exec memoryhub serve --host 0.0.0.0 --port 8000"]
