import numpy as np, time
from penstock.core.network import *
from penstock.core.qos import LossTolerance
from penstock.sim.value_network import *
from penstock.core import roadmap
from penstock.core.admission import *
LINE=LossTolerance([(100,1.0),(0,0.0)])
def generate(rng, queries=5, inputs=18, filters=34, fc=10.0, uc=5.0):
    cuts=np.sort(rng.choice(np.arange(1,inputs//2), queries-1, replace=False))*2 if False else None
    sizes=rng.multinomial(inputs-2*queries, [1/queries]*queries)+2
    ins=[];boxes=[];outs=[];above={}
    streams=[]  # per query list of (name)
    n=0
    # arcs to place filters on: each input stream, each union output
    slots=[]
    for q,s in enumerate(sizes):
        for j in range(s): slots.append((q,"i",j))
        for j in range(s-1): slots.append((q,"u",j))
    cnt=np.bincount(rng.integers(len(slots),size=filters),minlength=len(slots))
    k=dict(zip(slots,cnt))
    f=0
    def filt(src,m):
        nonlocal f
        for _ in range(m):
            name=f"f{f}"; f+=1; boxes.append(Box(name,"filter",(src,),fc)); above[name]=float(rng.integers(0,50)); src=name
        return src
    for q,s in enumerate(sizes):
        cur=[]
        for j in range(s):
            i=f"I{n}"; n+=1; ins.append(Input(i,1.0)); cur.append(filt(i,k[(q,"i",j)]))
        u=0
        while len(cur)>1:
            a,b=rng.choice(len(cur),2,replace=False); x,y=cur[a],cur[b]; cur=[c for c in cur if c not in (x,y)]
            nm=f"u{q}_{u}"; boxes.append(Box(nm,"union",(x,y),uc)); cur.append(filt(nm,k[(q,"u",u)])); u+=1
        outs.append(Output(f"O{q}",cur[0],LINE))
    low={f"O{q}":rng.integers(1,11)/10 for q in range(queries)}
    return ValueNetwork(Network(ins,boxes,outs),above,low)
t=time.time()
for seed in range(3):
    rng=np.random.default_rng(seed); v=generate(rng)
    print(len(v.network.boxes), len(v.network.inputs), len(v.by_origin.boxes))
    base=v.run(1.0).load; print("load check", base, v.by_origin.load())
    m=roadmap.build(v.by_origin, placement="single"); g=roadmap.build(v.by_origin, placement="group")
    loads=[v.by_origin.coefficients[i.name] for i in v.network.inputs]
    names=[i.name for i in v.network.inputs]
    for ex in (.22,.53,1.04,2.06,3.07):
        rate=1+ex; cap=base; excess=base*rate-cap
        row={}
        for nm,rm in (("random",m),("group",g)):
            i=rm.find(excess, {k:rate for k in names}); e=rm.entry(i); o=v.run(rate,e.keep); row[nm]=(100*(1-v.tuple_utility(o,rate)/5), 100*(1-v.value_utility(o,rate)/5), o.load/cap)
        # semantic
        def sem(i):
            e=m.entry(i); keep={}
            for inp in names:
                outs_=[o for o in v.network.outputs if inp in _reach[o.name]]
                ks=np.zeros(101,bool)
                for o in outs_:
                    # pass set
                    ks|=v.graphs[o.name].kept(e.delivered[o.name]).has(VALUES)
                keep[inp]=ks.astype(float)
            return v.run(rate,keep)
        _reach={}
        for o in v.network.outputs:
            todo=[o.name];seen=set()
            while todo:
                for a in v.network.into[todo.pop()]: todo.append(a.source); seen.add(a.source)
            _reach[o.name]=seen
        lo,hi=0,len(m)-1
        while lo<hi:
            mid=(lo+hi)//2
            if sem(mid).load<=cap*(1+1e-9): hi=mid
            else: lo=mid+1
        o=sem(lo); row["semantic"]=(100*(1-v.tuple_utility(o,rate)/5), 100*(1-v.value_utility(o,rate)/5), o.load/cap)
        ll=[x*rate for x in loads]
        for nm,kp in (("in_random",one_by_one(ll,excess,rng.permutation(18))),("cost_top",costliest_first(ll,excess)),("uniform",evenly(ll,excess)),("cost_uniform",evenly(ll,excess,ll))):
            o=v.run(rate,dict(zip(names,kp))); row[nm]=(100*(1-v.tuple_utility(o,rate)/5), 100*(1-v.value_utility(o,rate)/5), o.load/cap)
        print(ex,{k:tuple(round(float(x),2) for x in y) for k,y in row.items()})
print(time.time()-t)
