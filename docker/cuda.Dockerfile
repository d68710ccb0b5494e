# polytask on NVIDIA GPUs: docker build -f docker/cuda.Dockerfile -t polytask:cuda .
# Compiled kernels go to /cache. A volume of that name keeps them, so that only the first start compiles:
#   docker run --rm --gpus all -v polytask-cache:/cache polytask:cuda warmup suite=mt10 device=cuda
#   docker run --rm --gpus all -v polytask-cache:/cache -v "$PWD:/work" polytask:cuda train preset=mt10_gpu
FROM python:3.12-slim
# torch and Warp bring CUDA's libraries; Triton, which compiles the updates, needs a C compiler.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libegl1 libgl1 \
    && rm -rf /var/lib/apt/lists/*
COPY . /opt/polytask
RUN pip install --no-cache-dir --constraint /opt/polytask/constraints.txt '/opt/polytask[gpu,video,report,export,label,viewer]'
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics
# The caches of Warp (physics), torch.compile (updates) and Triton (our own kernel of gradient methods, and torch's).
# Everyone may write there: with `docker run --user`, the process is not root.
ENV WARP_CACHE_PATH=/cache/warp TORCHINDUCTOR_CACHE_DIR=/cache/torch TRITON_CACHE_DIR=/cache/triton
RUN mkdir --mode=1777 /cache
VOLUME /cache
WORKDIR /work
ENTRYPOINT ["polytask"]
