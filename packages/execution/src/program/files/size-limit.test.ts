import { expect, test } from "vitest";
import { Unmounter } from "./size-limit.ts";

// umount(8) fails for these on every system: nothing has such a path.
const missing = (name: string): string => `/keelson-missing/${name}`;

test("reads the mount points once for all callers whose unmounts fail together", async () => {
  let reads = 0;
  const unmounter = new Unmounter(() => {
    reads++;
    return [];
  });
  const names = Array.from({ length: 20 }, (_, index) => missing(String(index)));
  // The first call runs alone; the others wait for it and then share one umount(8).
  await Promise.all(names.map((name) => unmounter.unmount([name, `${name}-other`])));
  expect(reads).toBe(2);
});

test("fails only for the caller whose mount is left, even if its directory is not reachable", async () => {
  const unmounter = new Unmounter(() => ["/", missing("left")]);
  const results = await Promise.allSettled(["first", "left", "gone"].map((name) => unmounter.unmount([missing(name)])));
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
});
