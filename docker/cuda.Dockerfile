# polytask on NVIDIA GPUs: docker build -f docker/cuda.Dockerfile -t polytask:cuda .
# docker run --rm --gpus all -v "$PWD:/work" polytask:cuda train preset=mt10_gpu
FROM python:3.12-slim
# torch and Warp bring CUDA's libraries; Triton, which compiles the updates, needs a C compiler.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libegl1 libgl1 \
    && rm -rf /var/lib/apt/lists/*
COPY . /opt/polytask
RUN pip install --no-cache-dir --constraint /opt/polytask/constraints.txt '/opt/polytask[gpu,video,report,export,label,viewer]'
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics
WORKDIR /work
ENTRYPOINT ["polytask"]
