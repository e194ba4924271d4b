import { describe, expect, it } from "vitest";
import { FrozenServer } from "./testing/frozen-server.ts";
import { shareApp } from "./testing/shared-app.ts";

const app = shareApp();

/** Waits until another Pod is the primary and all three are in sync. */
async function recovered(old: string | undefined): Promise<void> {
  await app().cluster.untilGroup(
    ({ status }) => status?.primary?.pod !== old && status?.readyReplicas === 3 && status.failover === undefined,
  );
}

describe("a PostgreSQL App", { timeout: 300_000 }, () => {
  it("is provisioned, applies hot, cold and invalid parameters under a live writer, and scales out", async () => {
    await app().provision({}, 2);
    const pods = await app().cluster.pods();
    expect(pods.map((pod) => pod.metadata.labels?.["middleware.io/role"])).toEqual(["primary", "replica"]);
    expect((await app().cluster.group()).status?.currentVersion).toMatch(/^15\./);
    const writer = await app().startWriter();

    await app().succeeded(await app().cluster.changeApp({ config: { postgresConfig: { work_mem: "8MB" } } }));
    expect((await app().cluster.pods()).map((pod) => pod.metadata.uid)).toEqual(pods.map((pod) => pod.metadata.uid));
    for (const host of await app().hosts()) expect(await app().query(host, "SHOW work_mem")).toEqual([{ work_mem: "8MB" }]);

    const rejected = await app().cluster.changeApp({ config: { postgresConfig: { work_mem: "plenty" } } });
    const failed = await app().cluster.untilApp(
      ({ status }) => status?.plan?.generation === rejected && status.plan.outcome !== undefined,
    );
    expect(failed.status?.plan?.tasks[0]).toMatchObject({ status: "failed", errorClass: "Config" });
    expect(failed.status?.plan?.tasks[0]?.error).toMatch(/invalid value for parameter "work_mem": "plenty"/);

    const wasPrimary = (await app().cluster.group()).status?.primary?.pod;
    await app().succeeded(
      await app().cluster.changeApp({ config: { postgresConfig: { work_mem: "8MB", max_connections: "50" } } }),
    );
    expect((await app().cluster.group()).status?.primary?.pod).not.toBe(wasPrimary);
    expect(await app().query(await app().cluster.primary(), "SHOW max_connections")).toEqual([{ max_connections: "50" }]);
    const before = writer.count;
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(before + 20);
    expect((await app().lostRows(writer)).lost).toEqual([]);

    await app().succeeded(await app().cluster.changeApp(app().nodes(3)));
    expect(await app().query(await app().cluster.primary(), "SELECT count(*)::text FROM pg_stat_replication")).toEqual([
      { count: "2" },
    ]);
    expect(app().cluster.errors).toEqual([]);
  });

  it.each<[string, (pid: number) => Promise<FrozenServer | undefined>]>([
    [
      "killed",
      (pid) => {
        process.kill(pid, "SIGKILL");
        return Promise.resolve(undefined);
      },
    ],
    ["frozen", (pid) => FrozenServer.freeze(pid)],
  ])(
    "loses no acknowledged row when its primary is %s, with synchronous replicas, and the former primary follows",
    async (_, fail) => {
      await app().provision({ synchronous_standby_names: "ANY 1 (*)" }, 3);
      const old = (await app().cluster.group()).status?.primary?.pod;
      const writer = await app().startWriter();
      const frozen = await fail(await app().serverPid());
      await recovered(old);
      // A process that continued could acknowledge a commit that its successor does not have.
      expect((await frozen?.continue()) ?? []).toEqual([]);
      const before = writer.count;
      await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(before + 20);
      const { lost, written } = await app().lostRows(writer);
      expect(lost).toEqual([]);
      const [last] = await app().query(await app().cluster.primary(), "SELECT count(*)::text AS rows FROM public.rows");
      expect(Number(last?.["rows"])).toBeGreaterThanOrEqual(written);
      for (const host of await app().hosts())
        await expect
          .poll(() => app().query(host, "SELECT count(*)::text AS rows FROM public.rows"), { timeout: 60_000 })
          .toEqual([last]);
    },
  );
});
