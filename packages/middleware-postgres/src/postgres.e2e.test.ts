import { readFile } from "node:fs/promises";
import { Secret } from "@keelson/api-machinery/kinds";
import { describe, expect, it } from "vitest";
import type { Login } from "./server/peer-connection.ts";
import { AppClient, roleOfClient } from "./testing/app-client.ts";
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
    const slots = "SELECT active::text FROM pg_replication_slots ORDER BY slot_name";
    expect(await app().query(await app().cluster.primary(), slots)).toEqual([{ active: "true" }, { active: "true" }]);
    await app().succeeded(await app().cluster.changeApp(app().nodes(2)));
    expect(await app().query(await app().cluster.primary(), slots)).toEqual([{ active: "true" }]);
    expect(app().cluster.errors).toEqual([]);
  });

  it("rotates passwords while clients use both, gives a user its database, and keeps users across a failover", async () => {
    await app().provision({}, 3);
    const { cluster } = app();
    const [old, writer] = [await app().login(), await app().startWriter()];
    const isAccepted = async (login: Login): Promise<void> => {
      for (const host of await app().hosts()) expect(await roleOfClient({ host, ...login })).not.toBe("rejected");
    };
    const rules = ["database:app", "role:pg_monitor", "role:later"];
    const users = [
      { name: "owner", rules },
      { name: "later", rules: [] },
    ];
    await cluster.changeApp({ users, passwordRotation: { gracePeriod: "1h" } });
    const secret = "cache-user-owner";
    const ownClient = async () => ({ host: await cluster.primary(), ...(await app().login(secret)), database: "app" });
    await expect.poll(async () => roleOfClient(await ownClient()), { timeout: 60_000 }).toBe("owner");
    await using open = await AppClient.open(await ownClient());
    await open.run("CREATE TABLE notes (id text)");
    const first = await app().login(secret);

    for (const name of ["cache-access", secret]) {
      const before = await app().login(name);
      const data = { nextPassword: Buffer.from(`next of ${name}`).toString("base64") };
      await cluster.client.patch(Secret, { namespace: "default", name }, { type: "merge", body: { data } });
      // Whatever a client reads from the Secret at any time, all servers accept.
      const published = async (): Promise<string> => {
        const login = await app().login(name);
        await isAccepted(login);
        return login.user;
      };
      await expect.poll(published, { timeout: 60_000, interval: 20 }).not.toBe(before.user);
      await isAccepted(before);
    }
    // An open connection stays open, and the second login owns what the first one has created.
    expect(await open.run("SELECT session_user::text AS login")).toEqual([{ login: "owner" }]);
    const second = await ownClient();
    await using other = await AppClient.open(second);
    expect(await other.run("SELECT session_user::text AS login, current_user::text AS role")).toEqual([
      { login: "owner_b", role: "owner" },
    ]);
    await other.run("ALTER TABLE notes ADD COLUMN text text");

    const wasPrimary = (await cluster.group()).status?.primary?.pod;
    process.kill(await app().serverPid(), "SIGKILL");
    await recovered(wasPrimary);
    for (const login of [old, await app().login(), first, await app().login(secret)]) await isAccepted(login);
    await writer.stop();

    await cluster.changeApp({ users: [], passwordRotation: { gracePeriod: "0s" } });
    const secondRole = async (): Promise<string> => roleOfClient({ ...second, host: await cluster.primary() });
    await expect.poll(secondRole, { timeout: 60_000 }).toBe("rejected");
    expect(await roleOfClient({ host: await cluster.primary(), ...(await app().login()) })).toBe("postgres");
    expect(cluster.errors).toEqual([]);
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

  it("replaces a killed primary by a majority while the controller is away, and loses no acknowledged row", async () => {
    const { cluster } = app();
    await app().provision({ synchronous_standby_names: "ANY 1 (*)" }, 3);
    await app().succeeded(await cluster.changeApp(app().nodes(3, { quorum: true })));
    await cluster.untilGroup(({ status }) => status?.members?.pods.length === 3 && status.message === undefined);
    const old = await cluster.primary();
    const others = (await app().hosts()).filter((host) => host !== old);
    const [writer, server] = [await app().startWriter(), await app().serverPid()];
    const stat = await readFile(`/proc/${server}/stat`, "utf8");
    const agent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
    await cluster.stopOperator();
    for (const pid of [agent, server]) process.kill(pid, "SIGKILL");

    const isPrimary = (host: string) =>
      app()
        .query(host, "SELECT pg_is_in_recovery()::text AS standby")
        .then(([row]) => row?.["standby"] === "false")
        .catch(() => false);
    await expect
      .poll(async () => (await Promise.all(others.map(isPrimary))).filter(Boolean).length, { timeout: 90_000 })
      .toBe(1);
    const before = writer.count;
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(before + 20);
    await cluster.startOperator();
    await cluster.untilGroup(({ status }) => {
      const primary = status?.pods?.find((pod) => pod.name === status.primary?.pod);
      return primary?.ip !== old && status?.readyReplicas === 3 && status.message === undefined;
    });
    expect((await app().lostRows(writer)).lost).toEqual([]);
  });
});
