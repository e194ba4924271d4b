import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EventsEvent, Pod } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { openContainerdImages, openImage } from "@keelson/execution";
import { createBusyboxImage, startLocalContainerd } from "@keelson/execution/testing";
import { expect, onTestFinished, test } from "vitest";
import { startKubelet } from "../kubelet.ts";
import { openPodRuntimes } from "./pod-runtimes.ts";
import { ensureRuntimeClasses } from "./runtime-classes.ts";
import { reserveAddressBlock } from "../../address-block.ts";

const image = "example.org/busybox:1";
const namespace = "default";

test("a node uses a containerd that starts later, and reports one that stops", async () => {
  // The maximum length of a socket path is short.
  const home = realpathSync(mkdtempSync(join(tmpdir(), "kc-")));
  let containerd = await startLocalContainerd(join(home, "c"));
  const { socket } = containerd;
  const undo: (() => unknown)[] = [() => rmSync(home, { recursive: true, force: true }), () => containerd.stop()];
  onTestFinished(async () => {
    for (const each of undo.reverse()) await each();
  });
  await createBusyboxImage(join(home, "busybox.tar"));
  const laidOut = await openImage(join(home, "busybox.tar"), { temporary: home });
  await (await openContainerdImages({ socket, random: Math.random, now: Date.now })).add(image, laidOut);
  await laidOut.close();
  await containerd.stop();
  rmSync(socket, { force: true });

  const environment = await startTestEnvironment();
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const common = { clock: systemClock, random: Math.random };
  const runtimes = await openPodRuntimes({ ...common, dataDir: join(home, "node"), awaitedContainerd: socket });
  runtimes.onChange(({ handler }) => ensureRuntimeClasses(client, [handler]));
  const addresses = await reserveAddressBlock(home);
  const kubelet = await startKubelet({
    ...common,
    client,
    dataDir: join(home, "node"),
    nodeName: "here",
    podNetwork: addresses.podNetwork,
    runtimes,
    log: silentLogger,
  });
  undo.push(
    () => environment.stop(),
    () => runtimes.close(),
    () => kubelet.stop(),
    () => addresses.release(),
  );
  const createPod = (name: string): Promise<unknown> =>
    client.create(Pod, {
      metadata: { namespace, name },
      spec: {
        nodeName: "here",

        runtimeClassName: "containerd",
        terminationGracePeriodSeconds: 0,
        restartPolicy: "Never",
        containers: [{ name: "main", image, imagePullPolicy: "Never", command: ["/bin/true"] }],
      },
    });
  const status = async (name: string): Promise<string> => {
    const { status: { phase, containerStatuses } = {} } = await client.get(Pod, { namespace, name });
    return `${phase} ${containerStatuses?.[0]?.state?.waiting?.message ?? ""}`;
  };
  const expectStatus = async (name: string, what: RegExp): Promise<void> => {
    await expect.poll(() => status(name), { timeout: 40_000 }).toMatch(what);
  };

  await createPod("early");
  await expectStatus("early", /^Pending RuntimeClass "containerd" not found/);
  containerd = await startLocalContainerd(join(home, "c"));
  await expectStatus("early", /^Succeeded/);
  await containerd.stop();
  rmSync(socket, { force: true });
  await createPod("between");
  await expectStatus("between", /^Pending containerd does not respond on /);
  containerd = await startLocalContainerd(join(home, "c"));
  await expectStatus("between", /^Succeeded/);
  const nodeEvents = async (): Promise<readonly (string | undefined)[]> =>
    (await client.list(EventsEvent, {})).items
      .filter(({ regarding }) => regarding?.kind === "Node")
      .map(({ reason }) => reason);
  await expect
    .poll(nodeEvents, { timeout: 20_000 })
    .toEqual(expect.arrayContaining(["ContainerRuntimeReady", "ContainerRuntimeNotReady"]));
});
