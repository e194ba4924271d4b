import { once } from "node:events";
import { PassThrough } from "node:stream";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { type FlagValues, textFlag } from "../flags.ts";
import { listObjects } from "./list-objects.ts";

const namespaceFlag = textFlag({ name: "namespace", value: "NAME", description: "namespace", default: "default" });

it("lists objects in each format, and prints every change of a watch", { timeout: 20_000 }, async () => {
  await using environment = await startTestEnvironment();
  const connect = () => createClient({ transport: environment.transport(), fieldManager: "test" });
  const client = connect();
  const start = (flags: FlagValues, signal: AbortSignal) => {
    const stdout = new PassThrough();
    const services = {
      clock: systemClock,
      log: silentLogger,
      stderr: new PassThrough(),
      client: () => Promise.resolve(connect()),
    };
    const ended = listObjects(
      { args: [], flags, stdout, signal, ...services },
      {
        types: [ConfigMap],
        namespaceFlag,
        columns: ["A"],
        cells: () => Promise.resolve((object) => [String((object as { data?: Record<string, string> }).data?.["a"] ?? "-")]),
        includes: ({ metadata }) => metadata.name !== "kube-root-ca.crt",
        empty: (namespace) => `none in ${namespace ?? "all"}`,
      },
    );
    return { stdout, ended };
  };
  const run = async (flags: FlagValues = {}): Promise<string> => {
    const { stdout, ended } = start(flags, new AbortController().signal);
    expect(await ended).toBe(0);
    return String(stdout.read() ?? "");
  };
  expect(await run()).toBe("none in default\n");
  const stop = new AbortController();
  const watch = start({ "all-namespaces": true, watch: true, selector: "is=one" }, stop.signal);
  await client.create(ConfigMap, { metadata: { name: "one", namespace: "default", labels: { is: "one" } }, data: { a: "1" } });
  await client.create(ConfigMap, { metadata: { name: "two", namespace: "default" } });
  expect(await run({ "all-namespaces": true })).toBe("NAMESPACE  NAME  A\ndefault    one   1\ndefault    two   -\n");
  expect(await run({ output: "name", selector: "is=one" })).toBe("configmap/one\n");
  expect(JSON.parse(await run({ output: "json" }))).toMatchObject({ kind: "List", items: [{ kind: "ConfigMap" }, {}] });
  expect(await run({ output: "json" })).not.toContain("managedFields");
  let printed = "";
  const read = async (lines: number): Promise<void> => {
    while (printed.split("\n").length <= lines) {
      const chunk: unknown = watch.stdout.read();
      if (chunk === null) await once(watch.stdout, "readable");
      else printed += String(chunk);
    }
  };
  await read(2);
  await client.delete(ConfigMap, { namespace: "default", name: "one" });
  await read(3);
  stop.abort();
  expect(await watch.ended).toBe(0);
  expect(printed).toBe("NAMESPACE  NAME  A\ndefault    one   1\ndefault    one   1\n");
});
