/** A key-value service, so that Keelson and its peer run the same benchmark. */
export interface LoadTarget {
  create(name: string): Promise<unknown>;
  update(name: string): Promise<unknown>;
  get(name: string): Promise<unknown>;
  /** Reads all objects. Returns their number. */
  list(): Promise<number>;
}

/** The result of {@link measureLoad}. */
export interface LoadRun {
  /** Operations per second, by operation and number of clients: `create 16`. */
  readonly perSecond: Readonly<Record<string, number>>;
  /** Median duration of a list of all objects, in ms. */
  readonly listMs: number;
  readonly listed: number;
}

/** Number of objects that are created and then listed. */
export const loadObjects = 10_000;
const clients = 16;
/** Number of clients that create them: many, so that they share commits. */
const fillClients = 128;
const windowMs = 1_000;
const lists = 5;

/** Makes an object 2 KB with its metadata. */
export const payload = "x".repeat(1_700);

/** Creates {@link loadObjects} and lists them, which also warms up. Then creates, updates and gets objects with 1 client and with 16. */
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
  // Each client writes sequentially, so that no two of the 16 write the same object at the same time.
  for (const parallel of [1, clients]) {
    await run("create", parallel, (index) => target.create(`more-${parallel}-${index}`));
    await run("update", parallel, (index) => target.update(name(index % loadObjects)));
    await run("get", parallel, (index) => target.get(name((index * 7) % loadObjects)));
  }
  times.sort((a, b) => a - b);
  return { perSecond, listMs: times[lists >> 1] ?? 0, listed };
}
