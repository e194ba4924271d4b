import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Driver } from "../driver.ts";
import type { Isolation } from "../isolation.ts";
import { canCreateDevices, createZeroDevice } from "../testing/test-devices.ts";
import { createBubblewrapDriver } from "./bubblewrap-driver.ts";

describe.runIf(canCreateDevices()).each([
  ["of the machine's root", {}],
  ["with a private user", { hasPrivateUser: true }],
] satisfies [string, Isolation][])("a program %s in bubblewrap", (_, isolation) => {
  let [base, devices]: [string, string] = ["", ""];
  let driver: Driver;
  beforeEach(async () => {
    base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-devices-")));
    devices = mkdtempSync("/dev/keelson-");
    for (const path of [base, devices]) chmodSync(path, 0o755);
    for (const name of ["own", "other"]) createZeroDevice(join(devices, name));
    driver = await createBubblewrapDriver({ dir: join(base, "programs"), clock: systemClock, random: Math.random });
  });
  afterEach(async () => {
    await Promise.all(driver.list().map((program) => program.stop({ graceMs: 0 })));
    await driver.close();
    for (const path of [base, devices]) rmSync(path, { recursive: true, force: true });
  });

  const script = (): string => `cd ${devices}; ls; for name in own other; do head -c 3 $name | wc -c; done 2>/dev/null`;

  test("reads the devices that it was given, and no others", async () => {
    const spec = { command: ["/bin/sh", "-c", `${script()}; exec sleep 600`], isolation } as const;
    const own = { ...spec, id: "a", isolation: { ...isolation, devices: [join(devices, "own")] } };
    const program = await driver.start(own);
    await expect.poll(() => readFileSync(program.logs.stdout, "utf8"), { timeout: 60_000 }).toBe("own\n3\n0\n");
    const session = await program.exec({ command: ["/bin/sh", "-c", script()] });
    expect(await text(session.stdout)).toBe("own\n3\n0\n");
    const without = await driver.start({ ...spec, id: "b", command: ["ls", devices] });
    expect(await without.exited()).toMatchObject({ exitCode: 2 });
  });

  test("can neither create devices nor use those in its directories", async () => {
    mkdirSync(join(base, "folder"));
    createZeroDevice(join(base, "folder", "zero"));
    const binds = [{ source: join(base, "folder"), target: "/folder", isWritable: true }];
    const attack = "mknod /tmp/zero c 1 5; head -c 3 /tmp/zero; head -c 3 /folder/zero; echo done";
    const program = await driver.start({
      ...{ id: "a", command: ["/bin/sh", "-c", attack], isolation: { ...isolation, binds, devices: [join(devices, "own")] } },
    });
    expect(await program.exited()).toMatchObject({ exitCode: 0 });
    expect(readFileSync(program.logs.stdout, "utf8")).toBe("done\n");
    expect(readFileSync(program.logs.stderr, "utf8")).toMatch(/mknod: .*\n.*No such file.*\n.*Permission denied/i);
  });

  test("is not started without a device that it was given", async () => {
    const isolated = { ...isolation, devices: [join(devices, "missing")] };
    const program = await driver.start({ id: "a", command: ["true"], isolation: isolated });
    expect(await program.exited()).toMatchObject({
      ...{ reason: "StartFailed", exitCode: 126, message: expect.stringContaining(join(devices, "missing")) },
    });
  });
});
