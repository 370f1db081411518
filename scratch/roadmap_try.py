import time, numpy as np
from penstock.core.network import *
from penstock.core.qos import LossTolerance
from penstock.core import roadmap
whole = LossTolerance([(100, 1.0), (0, 0.0)])
def fig4():
    g1=LossTolerance([(100,1.0),(60,.88),(0,0)]); g2=LossTolerance([(100,1),(30,.6),(0,0)])
    return Network([Input("I1",10),Input("I2",20)],[Box("b1","filter",("I1",),10,.5),Box("b2","filter",("b1",),10,.6),Box("b3","map",("b2",),5),Box("b4","filter",("b1",),10,.8),Box("b5","filter",("I2",),10,.7),Box("b6","union",("b4","b5"),10,.5),Box("b7","map",("b6",),5)],[Output("O1","b3",g1),Output("O2","b7",g2)])
n=fig4()
m=roadmap.build(n)
print(len(m)); 
for i in range(0,len(m),8): e=m.entry(i); print(i, round(sum(e.savings[k]*n.rates[k] for k in n.rates),1), {k:round(v,3) for k,v in e.keep.items()}, e.delivered, round(e.utility,3))
print(m.entry(len(m)-1))
sv=m.savings@np.array([10,20.]); print("monotone",(np.diff(sv)>=-1e-9).all())
for ex in (0,1,50,140,400,639,640,700): 
    for c in (0,10,len(m)-1): assert m.find(ex,n.rates,c)==((np.argmax(sv>=ex-1e-9) if (sv>=ex-1e-9).any() else len(m)-1) if ex>0 else 0), (ex,c)
def big(q=100, seed=0, share=0.2):
    r=np.random.default_rng(seed); inputs=[];boxes=[];outs=[]
    stems=[]
    for k in range(q):
        srcs=[]
        for j in range(3):
            if stems and r.random()<share: srcs.append(stems[r.integers(len(stems))]); continue
            i=f"I{k}_{j}"; inputs.append(Input(i, float(r.uniform(1,10)))); boxes.append(Box(f"f{k}_{j}","filter",(i,),float(r.uniform(1,10)),float(r.uniform(.3,1)))); srcs.append(f"f{k}_{j}"); stems.append(f"f{k}_{j}")
        boxes.append(Box(f"u{k}","union",tuple(dict.fromkeys(srcs)) if len(set(srcs))>1 else (srcs[0],srcs[0]),float(r.uniform(1,10))))
        last=f"u{k}"
        for j in range(6): boxes.append(Box(f"g{k}_{j}","filter",(last,),float(r.uniform(1,10)),float(r.uniform(.5,1)))); last=f"g{k}_{j}"
        u=float(r.uniform(.1,1)); p=float(r.uniform(20,80)); lo=1-(1-p/100)*u
        outs.append(Output(f"O{k}",last,LossTolerance([(100,1.0),(p,lo),(0,0.0)])))
    return Network(inputs,boxes,outs)
t=time.perf_counter(); b=big(); t1=time.perf_counter(); m=roadmap.build(b); t2=time.perf_counter()
print(len(b.boxes), len(b.inputs), "net",t1-t,"build",t2-t1,"rows",len(m), m.keep.shape)
r=b.rates; L=b.load()
t=time.perf_counter(); 
for k in range(100): m.find(L*k/100, r, 3000)
print("find us",(time.perf_counter()-t)/100*1e6)
from penstock.core import exact
for s in range(6):
    b=big(20,seed=s,share=.3 if s%2 else 0); m=roadmap.build(b); L=b.load(); g=roadmap.build(b,placement="group")
    out=[]
    for ex in (.2,.4,.6,.8):
        o=exact.best(b,L*(1-ex)); i=m.find(ex*L,b.rates); j=g.find(ex*L,b.rates); q=exact.best(b,L*(1-ex),objective="max_min")
        out.append((round(100*(1-o.utility/20),2), round(100*(1-m.utility[i]/20),2), round(100*(1-g.utility[j]/20),2), round(100*(1-q.utility/20),2), round(min(o.utilities.values()),2), round(min(q.utilities.values()),2)))
    print(s,out)
t=time.perf_counter(); exact.best(big(),big().load()/2); print("lp",time.perf_counter()-t)
