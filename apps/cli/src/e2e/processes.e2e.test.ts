import { connect } from "node:net";
import { ConfigMap, Pod } from "@keelson/api-machinery/kinds";
import { watched } from "@keelson/client/testing";
import { expect, test } from "vitest";
import { startKeelson, upArguments } from "../testing/keelson-process.ts";
import { startTestKeelson } from "../testing/local-keelson.ts";
import { processesOf } from "../testing/processes-of.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/** Kills the process of a component with SIGKILL. */
function killComponent(component: string, dataDir: string): void {
  const found = processesOf(`keelson ${component} --data-dir ${dataDir}`);
  expect(found).toHaveLength(1);
  process.kill(found[0]?.pid ?? expect.fail(), "SIGKILL");
}

/** Ports that `keelson up` printed, except that of the API server. */
function serverPorts(output: string): readonly number[] {
  const lines = output.split("\n").filter((line) => /^(metrics|robots|sandboxes) /.test(line));
  // The server of `keelson robots exec` has another port with each start; its clients read it from a file.
  const addresses = lines.flatMap((line) =>
    [...line.matchAll(/(\w+):\/\/127\.0\.0\.1:(\d+)/g)].map(([, ...parts]) => [line, ...parts]),
  );
  return addresses.flatMap(([line = "", scheme, port]) =>
    line.startsWith("robots ") && scheme !== "mqtt" ? [] : [Number(port)],
  );
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

test("an API server that is killed is restarted on its port, and neither Pods nor operators are affected", async () => {
  using folder = temporaryFolder();
  await using keelson = await startTestKeelson(folder.path, "--only", "cluster");
  const client = await keelson.client();
  const shell = ["/bin/sh", "-c", "echo started; exec sleep 600"];
  await keelson.kubectl("run", "kept", "--image=none", "--command", "--", ...shell);
  await keelson.kubectl("wait", "pod/kept", "--for=condition=Ready", "--timeout=40s");
  const { uid } = (await client.get(Pod, { namespace: "default", name: "kept" })).metadata;

  killComponent("apiserver", keelson.dataDir);
  await keelson.process.printed(/^apiserver: killed by SIGKILL; restarting/m);
  await expect.poll(() => client.get(Pod, { namespace: "default", name: "kept" }).catch(() => undefined)).toBeDefined();
  const pod = await client.get(Pod, { namespace: "default", name: "kept" });
  expect(pod.metadata.uid).toBe(uid);
  expect(pod.status?.containerStatuses?.[0]?.restartCount).toBe(0);
  // The controllers have reconnected: a new Pod is scheduled and starts, and its log is served.
  await keelson.kubectl("run", "next", "--image=none", "--command", "--", ...shell);
  await keelson.kubectl("wait", "pod/next", "--for=condition=Ready", "--timeout=40s");
  await expect.poll(() => keelson.kubectl("logs", "next")).toBe("started\n");
  await keelson.kubectl("delete", "pod", "--all", "--timeout=40s");
  await client.close();
});

test("controllers that are killed are restarted, and the API server keeps serving", async () => {
  using folder = temporaryFolder();
  await using keelson = await startTestKeelson(folder.path, "--only", "cluster");
  const client = await keelson.client();
  await keelson.kubectl("run", "kept", "--image=none", "--command", "--", "/bin/sleep", "600");
  await keelson.kubectl("wait", "pod/kept", "--for=condition=Ready", "--timeout=40s");

  killComponent("controllers", keelson.dataDir);
  await keelson.process.printed(/^controllers: killed by SIGKILL; restarting/m);
  await client.create(ConfigMap, { metadata: { namespace: "default", name: "served" }, data: {} });
  await expect.poll(() => keelson.kubectl("exec", "kept", "--", "echo", "adopted").catch(() => "")).toBe("adopted\n");
  const pod = await client.get(Pod, { namespace: "default", name: "kept" });
  expect(pod.status?.containerStatuses?.[0]?.restartCount).toBe(0);
  await client.delete(Pod, { namespace: "default", name: "kept" }, { gracePeriodSeconds: 1 });
  await watched(client, Pod, "kept", (each) => each === undefined);
  await client.close();
});

test("controllers that are killed return to the ports of their servers", async () => {
  using folder = temporaryFolder();
  await using keelson = await startTestKeelson(folder.path, "--only", "robots,sandboxes", "--fastpath-metrics-port", "0");
  const ports = serverPorts(keelson.process.output());
  // Metrics, MQTT and gRPC.
  expect(ports).toHaveLength(3);

  killComponent("controllers", keelson.dataDir);
  await keelson.process.printed(/^controllers: killed by SIGKILL; restarting/m);
  for (const port of ports) await expect.poll(() => isListening(port)).toBe(true);
});

test("no process outlives a killed keelson up, and the data directory is free again immediately", async () => {
  using folder = temporaryFolder();
  const first = await startTestKeelson(folder.path, "--only", "cluster");
  const ours = (): readonly unknown[] => processesOf(`--data-dir ${first.dataDir}`);
  expect(ours()).toHaveLength(3);
  first.process.child.kill("SIGKILL");
  await first.process.exited;
  await using second = await startTestKeelson(folder.path, "--only", "cluster");
  expect(ours()).toHaveLength(3);
  expect(await second.process.stop()).toBe(0);
  expect(ours()).toEqual([]);
});

test("names the process that uses the data directory", async () => {
  using folder = temporaryFolder();
  await using keelson = await startTestKeelson(folder.path, "--only", "apiserver");
  await using second = startKeelson(upArguments(folder.path));
  expect(await second.exited).toBe(1);
  expect(second.output()).toContain(`--data-dir: ${keelson.dataDir} is in use by process ${keelson.process.child.pid}`);
});
