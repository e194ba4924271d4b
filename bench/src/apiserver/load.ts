/** What is measured of any key-value service, so that Keelson and its peer do the same. */
export interface LoadTarget {
  create(name: string): Promise<unknown>;
  update(name: string): Promise<unknown>;
  get(name: string): Promise<unknown>;
  /** Reads everything that was created. Answers how much that is. */
  list(): Promise<number>;
}

/** What {@link measureLoad} found. */
export interface LoadRun {
  /** Operations a second, by operation and number of clients: `create 16`. */
  readonly perSecond: Readonly<Record<string, number>>;
  /** How long a list of everything took, ms, in the middle. */
  readonly listMs: number;
  readonly listed: number;
}

/** Objects that are created, and then listed. */
export const loadObjects = 10_000;
const clients = 16;
/** Clients that create them: many, so that commits are shared and it is soon done. */
const fillClients = 128;
const windowMs = 1_000;
const lists = 5;

/** A text that makes an object 2 KB with its metadata. */
export const payload = "x".repeat(1_700);

/** Creates {@link loadObjects} and lists them, which also warms up; then creates more, updates and gets, with 1 client and with 16. */
export async function measureLoad(target: LoadTarget): Promise<LoadRun> {
  const perSecond: Record<string, number> = {};
  const name = (index: number): string => `object-${index}`;
  const run = async (what: string, parallel: number, act: (index: number) => Promise<unknown>): Promise<void> => {
    let next = 0;
    const started = performance.now();
    await Promise.all(
      Array.from({ length: parallel }, async () => {
        while (performance.now() - started < windowMs) await act(next++);
      }),
    );
    perSecond[`${what} ${parallel}`] = (next * 1000) / (performance.now() - started);
  };
  let created = 0;
  await Promise.all(
    Array.from({ length: fillClients }, async () => {
      while (created < loadObjects) await target.create(name(created++));
    }),
  );
  const times: number[] = [];
  let listed = 0;
  for (let index = 0; index < lists; index++) {
    const started = performance.now();
    listed = await target.list();
    times.push(performance.now() - started);
  }
  // One client's writes follow one another: no two of the 16 ever meet at one object within a window.
  for (const parallel of [1, clients]) {
    await run("create", parallel, (index) => target.create(`more-${parallel}-${index}`));
    await run("update", parallel, (index) => target.update(name(index % loadObjects)));
    await run("get", parallel, (index) => target.get(name((index * 7) % loadObjects)));
  }
  times.sort((a, b) => a - b);
  return { perSecond, listMs: times[lists >> 1] ?? 0, listed };
}
