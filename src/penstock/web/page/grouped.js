// Groups batches, so that a chart has no more points than pixels can show.

// A pause is long if it is longer than this many seconds, and than the time between this many batches.
const LONG_S = 10, LONG_BATCHES = 3;

// Groups of points: {from, t, d, some, first, last, joined}. The time of a batch begins at the end of the one before it, for
// a trigger may leave time between batches, in which rows come; but not before the query was started again. What follows a
// start or a long pause is not joined to what was before. That the first took as long as usual is assumed.
export function grouped(points, most, starts = []) {
  const size = Math.ceil(points.length / Math.max(most, 1)) || 1, usual = median(points), long = Math.max(LONG_S, LONG_BATCHES * usual), found = [];
  let next = 0, group = null;
  points.forEach((point, at) => {
    const before = at ? points[at - 1] : null, began = point.t - point.d;
    let started = null;
    for (; next < starts.length && starts[next] <= point.t; next += 1) if (!before || starts[next] >= before.t) started = starts[next];
    const joined = before !== null && started === null && began - before.t <= long;
    if (!group || !joined || group.some.length === size) {
      const since = before ? started ?? before.t : Math.max(point.t - usual, started ?? -Infinity);
      const from = joined ? since : Math.max(Math.min(since, began), before?.t ?? -Infinity);
      found.push(group = { from, some: [], first: point, joined });
    }
    group.some.push(point);
    Object.assign(group, { last: point, t: point.t, d: Math.max(point.t - group.from, 1e-3) });
  });
  return found;
}

function median(points) {
  const between = points.slice(1).map((point, at) => point.t - points[at].t).sort((one, two) => one - two);
  return between[Math.floor(between.length / 2)] || 0;
}

export const sum = (group, of) => group.some.reduce((all, one) => all + (of(one) || 0), 0);

export function mean(group, of, weight = () => 1) {
  let all = 0, weights = 0;
  for (const one of group.some) {
    const value = of(one), share = weight(one);
    if (value !== null && value !== undefined) { all += share * value; weights += share; }
  }
  return weights ? all / weights : null;
}

export const most = (group, of) => group.some.reduce((best, one) => (of(one) === null || of(one) === undefined ? best : Math.max(best ?? of(one), of(one))), null);
