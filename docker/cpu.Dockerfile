# polytask on the CPU: docker build -f docker/cpu.Dockerfile -t polytask:cpu . && docker run --rm polytask:cpu list tasks
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri \
    && rm -rf /var/lib/apt/lists/*
COPY . /opt/polytask
# Only torch comes from PyTorch's index, which need not have the pinned versions of what torch needs.
RUN pip install --no-cache-dir --no-deps torch --constraint /opt/polytask/constraints.txt \
        --index-url https://download.pytorch.org/whl/cpu \
    && pip install --no-cache-dir --constraint /opt/polytask/constraints.txt '/opt/polytask[video,report,export,label,viewer]'
WORKDIR /work
ENTRYPOINT ["polytask"]
