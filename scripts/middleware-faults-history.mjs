/* Checks of the histories of middleware-faults.mjs. */

/** Compares what clients wrote with what is stored. `isSynchronous`: no acknowledged write may be lost. */
export function check(clients, stored, isSynchronous) {
  const problems = [];
  const appends = clients.filter(({ workload }) => workload === "append").flatMap(({ acknowledged }) => acknowledged);
  const has = new Set(stored.appended);
  const lost = appends.filter(({ value }) => !has.has(value));
  if (isSynchronous && lost.length > 0)
    problems.push(`${lost.length} acknowledged appends were lost: ${JSON.stringify(lost.slice(0, 5))}`);
  const increments = clients.filter(({ workload }) => workload === "register").flatMap(({ acknowledged }) => acknowledged);
  const values = increments.map(({ value }) => Number(value));
  const repeated = values.length - new Set(values).size;
  if (isSynchronous && repeated > 0) problems.push(`${repeated} values of the register were acknowledged twice`);
  if (isSynchronous && Math.max(0, ...values) > stored.register)
    problems.push(`the register is ${stored.register}, and ${Math.max(...values)} was acknowledged`);
  const all = [...appends, ...increments].sort((a, b) => a.at - b.at);
  // A write that started after another Pod had acknowledged one, and before that Pod stopped doing so, shows two primaries.
  let [two, terms] = [0, 1];
  for (let index = 1; index < all.length; index++) {
    const [previous, write] = [all[index - 1], all[index]];
    if (previous.host === write.host) continue;
    terms += 1;
    const later = all
      .slice(index + 1, index + 50)
      .find(({ host, started }) => host === previous.host && started > write.at && started < write.at + 1_000);
    if (later !== undefined) two += 1;
  }
  if (two > 0) problems.push(`two Pods accepted writes at the same time (${two} times)`);
  return { acknowledged: all.length, lost: lost.length, repeated, terms, problems };
}

/** The longest time between two acknowledged writes of an interval. */
export function gapOf(acknowledged, from, to) {
  const times = acknowledged
    .map(({ at }) => at)
    .filter((at) => at > from - 1_000 && at < to)
    .sort((a, b) => a - b);
  let gap = 0;
  for (let index = 1; index < times.length; index++) gap = Math.max(gap, times[index] - times[index - 1]);
  return gap;
}
