# Images with unspur, for a CPU and for NVIDIA GPUs. Not run in our CI: tests/test_container.py reads this file.
#   docker build --target cpu  -t unspur:cpu .
#   docker build --target cuda -t unspur:cuda .
#   docker run --rm --network none -v "$PWD:/work" unspur:cpu debias photos/ --out runs/photos
#   docker run --rm --gpus all --shm-size 2g -v "$PWD:/work" unspur:cuda demo
ARG PYTHON=3.11
ARG DEBIAN=bookworm

FROM python:${PYTHON}-slim-${DEBIAN} AS wheel
WORKDIR /source
RUN pip install --no-cache-dir "build>=1.2"
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m build --wheel --outdir /wheels

FROM python:${PYTHON}-slim-${DEBIAN} AS base
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN useradd --create-home --uid 1000 unspur
COPY constraints.txt /tmp/constraints.txt
WORKDIR /work
ENTRYPOINT ["unspur"]
CMD ["--help"]

# torch without CUDA is about a tenth of the size; only this index has it.
FROM base AS cpu
RUN pip install --index-url https://download.pytorch.org/whl/cpu -c /tmp/constraints.txt torch
COPY --from=wheel /wheels /wheels
RUN pip install -c /tmp/constraints.txt "$(ls /wheels/*.whl)[report,review,table,deploy]"
USER unspur

# torch from PyPI brings the CUDA libraries; the driver is the host's (NVIDIA Container Toolkit). Triton compiles
# kernels at run time and needs a C compiler for it.
FROM base AS cuda
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN pip install -c /tmp/constraints.txt torch
COPY --from=wheel /wheels /wheels
RUN pip install -c /tmp/constraints.txt "$(ls /wheels/*.whl)[report,review,table,deploy]"
USER unspur
