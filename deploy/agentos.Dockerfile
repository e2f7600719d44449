# AgentOS itself: the gateway (`agentos serve`) and the worker (`agentos worker`).
#
#   docker build -t agentos -f deploy/agentos.Dockerfile .

FROM debian:bookworm-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# What builds and installs: pip, and Node for the dashboard. The image itself has neither.
COPY requirements/node.txt requirements/
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/node.txt
COPY requirements/runtime.txt requirements/
RUN python3 -m venv --without-pip /opt/agentos \
 && /opt/build/bin/pip --python /opt/agentos/bin/python install \
      --no-cache-dir --require-hashes -r requirements/runtime.txt
# Before the rest: other changes leave the dashboard as it is.
COPY web web
COPY tools tools
COPY src/agentos/__init__.py src/agentos/web_build.py src/agentos/
RUN PYTHONPATH=src /opt/build/bin/python tools/dashboard.py build \
 && test -f src/agentos/_ui/index.html
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/build/bin/pip --python /opt/agentos/bin/python install \
      --no-cache-dir --no-deps --no-build-isolation .

FROM debian:bookworm-slim
# bubblewrap for agents' commands and for teams of the local runtime; git for their workspaces.
RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap ca-certificates git python3 util-linux \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/agentos /opt/agentos
RUN useradd --system --uid 990 --home-dir /var/lib/agentos --shell /usr/sbin/nologin agentos \
 && install -d -o agentos -g agentos -m 711 /var/lib/agentos
ENV PATH=/opt/agentos/bin:/usr/local/bin:/usr/bin:/bin \
    AGENTOS_DATA_DIR=/var/lib/agentos \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1
USER agentos
EXPOSE 8700
ENTRYPOINT ["agentos"]
CMD ["serve", "--host", "0.0.0.0"]
