import torch, time, traceback
from polytask.grads import GRADS, build
dev=torch.device("cuda"); print(torch.__version__)
def spd(*s): 
    a=torch.randn(*s,device=dev,dtype=torch.float64); return a@a.mT/s[-1]+0.1*torch.eye(s[-1],device=dev,dtype=torch.float64)
def timeit(f,n=50):
    for _ in range(3): f()
    torch.cuda.synchronize(); t=time.perf_counter()
    for _ in range(n): f()
    torch.cuda.synchronize(); return (time.perf_counter()-t)/n*1e3
def cap(f):
    s=torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s): f(); f()
    torch.cuda.current_stream().wait_stream(s); torch.cuda.synchronize()
    g=torch.cuda.CUDAGraph()
    with torch.cuda.graph(g): r=f()
    return g,r
def probe(name,f):
    try:
        e=timeit(f,20); g,r=cap(f); t=timeit(g.replay)
        ref=f(); g.replay(); torch.cuda.synchronize(); ok=torch.allclose(r,ref,rtol=1e-6,atol=1e-9)
        print(f"{name:34s} eager {e:.3f} graph {t:.3f} ms same {ok}",flush=True)
    except Exception as ex: print(name,"FAILED",str(ex).split("\n")[0][:150],flush=True)
for K in (10,50):
    A=spd(K,K); b=torch.ones(K,1,device=dev,dtype=torch.float64); AA=spd(K,K,K); bb=torch.ones(K,K,1,device=dev,dtype=torch.float64)
    probe(f"chol+solve {K}",lambda: torch.cholesky_solve(b,torch.linalg.cholesky_ex(A)[0]))
    probe(f"chol+solve batched {K}",lambda: torch.cholesky_solve(bb,torch.linalg.cholesky_ex(AA)[0]))
    probe(f"solve_ex {K}",lambda: torch.linalg.solve_ex(A,b)[0])
    probe(f"solve_ex batched {K}",lambda: torch.linalg.solve_ex(AA,bb)[0])
    probe(f"inv_ex {K}",lambda: torch.linalg.inv_ex(A)[0])
    probe(f"inv_ex batched {K}",lambda: torch.linalg.inv_ex(AA)[0])
    probe(f"matmul {K}",lambda: A@A)
    probe(f"bmm batched {K}",lambda: AA@AA)
    probe(f"argsort {K}",lambda: A[0].argsort())
    for P in (100_000,1_000_000):
        J=torch.randn(K,P,device=dev)
        probe(f"gram32 {K} {P}",lambda: J@J.T)
        def g64():
            D=J.double(); return D@D.T
        probe(f"gram64 {K} {P}",g64)
        def g64c():
            D=J.view(K,100,-1).transpose(0,1).double(); return (D@D.mT).sum(0)
        probe(f"gram64chunk {K} {P}",g64c)
        def g32c():
            D=J.view(K,100,-1).transpose(0,1); return (D@D.mT).double().sum(0)
        probe(f"gram32chunk {K} {P}",g32c)
        G=g64(); 
        for nm,f in (("g32",lambda:J@J.T),("g32c",g32c)): print(nm,"min eig noise",torch.linalg.matrix_norm(f().double()-G,2).item()/P)
    J=torch.randn(K,1000,device=dev); G=(J@J.T).double(); L=torch.rand(K,device=dev)
    for name,(cfg,_) in GRADS.items():
        gen=torch.Generator(dev).manual_seed(0); m=build(cfg(),K,dev,gen)
        if name=="pcgrad":
            from polytask.grads.pcgrad import project_conflicts
            order=torch.rand(K,K,device=dev).argsort(1)
            probe(f"{name} {K}",lambda: project_conflicts(G,order))
        else: probe(f"{name} {K}",lambda: m.weights(L,G))
