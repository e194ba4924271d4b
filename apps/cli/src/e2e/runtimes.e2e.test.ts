import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Container, PodObject, PodSpec } from "@keelson/api-machinery/kinds";
import { type LocalContainerd, createBusyboxImage, startLocalContainerd } from "@keelson/execution/testing";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { startKeelson } from "../testing/keelson-process.ts";
import { killAndRestart } from "../testing/kill.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { startRegistry } from "../testing/image-registry.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const folder = temporaryFolder();
// The path of a Unix socket is limited to 108 bytes.
const home = realpathSync(mkdtempSync(join(tmpdir(), "kc-")));
const image = "example.org/busybox:1";
let containerd: LocalContainerd;
let keelson: TestKeelson;
let flags: readonly string[];
const kubectl = (...args: string[]): Promise<string> => keelson.kubectl(...args);

beforeAll(async () => {
  containerd = await startLocalContainerd(join(home, "c"));
  await createBusyboxImage(join(home, "busybox.tar"));
  const address = ["--containerd-address", containerd.socket];
  const importing = startKeelson(["image", "import", join(home, "busybox.tar"), image, ...address]);
  expect(await importing.exited, importing.output()).toBe(0);
  flags = ["--only", "cluster", ...address];
  keelson = await startTestKeelson(folder.path, ...flags);
}, 120_000);
afterAll(async () => {
  await kubectl("delete", "deployment,pod", "--all", "--timeout=45s");
  await keelson[Symbol.asyncDispose]();
  await containerd.stop();
  rmSync(home, { recursive: true, force: true });
  folder[Symbol.dispose]();
}, 120_000);

async function apply(...objects: readonly object[]): Promise<void> {
  const file = join(folder.path, "objects.yaml");
  writeFileSync(file, objects.map((each) => stringify(each)).join("---\n"));
  await kubectl("apply", "-f", file);
}
const pod = (name: string, runtimeClassName: string, container: Partial<Container>, spec: Partial<PodSpec> = {}): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: {
    runtimeClassName,
    restartPolicy: "Never",
    terminationGracePeriodSeconds: 1,
    containers: [{ name: "main", image, ...container }],
    ...spec,
  },
});
const sh = (script: string): string[] => ["/bin/sh", "-c", script];
const read = async (name: string): Promise<PodObject> =>
  JSON.parse(await kubectl("get", "pod", name, "-o", "json")) as PodObject;
const ended = (name: string): Promise<string> =>
  kubectl("wait", `pod/${name}`, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=45s");
const waiting = (name: string, reason: string): Promise<string> =>
  kubectl(
    "wait",
    `pod/${name}`,
    `--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=${reason}`,
    "--timeout=45s",
  );

test("publishes a RuntimeClass per available runtime", async () => {
  expect((await kubectl("get", "runtimeclass", "-o", "name")).trim().split("\n")).toEqual([
    "runtimeclass.node.k8s.io/bubblewrap",
    "runtimeclass.node.k8s.io/containerd",
    "runtimeclass.node.k8s.io/process",
  ]);
});

test("runs images in containerd with their files, environment, command and users, and the Pod's volumes and hostname", async () => {
  const script =
    "cat /etc/motd; echo $FROM_IMAGE $MINE; pwd; id -u; cat /conf/a; echo x >/data/x && cat /data/x; touch /conf/b 2>&1";
  await kubectl("create", "service", "clusterip", "named", "--tcp=80");
  await apply(
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "conf" }, data: { a: "from a config map\n" } },
    pod(
      "real",
      "containerd",
      {
        command: sh(`${script} || true`),
        env: [{ name: "MINE", value: "too" }],
        securityContext: { runAsUser: 7 },
        volumeMounts: [
          { name: "conf", mountPath: "/conf", readOnly: true },
          { name: "data", mountPath: "/data" },
        ],
        resources: { limits: { memory: "32Mi", cpu: "500m" } },
      } as Partial<Container>,
      {
        volumes: [
          { name: "conf", configMap: { name: "conf" } },
          { name: "data", emptyDir: {} },
        ],
      } as Partial<PodSpec>,
    ),
    pod("args", "containerd", { args: ["-c", "echo with a shell of the image"], command: ["sh"] }),
    pod("default", "containerd", {}),
    pod("hosts", "containerd", {
      command: sh(
        "until /bin/busybox grep named /etc/hosts; do sleep 0.1; done; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace",
      ),
    }),
  );
  await ended("real");
  expect(await kubectl("logs", "real")).toMatch(/^above\nyes too\n\/\n7\nfrom a config map\nx\n.*(Read-only|Permission).*\n$/);
  await ended("args");
  expect(await kubectl("logs", "args")).toBe("with a shell of the image\n");
  // The image's default command: a shell without input.
  await ended("default");
  await ended("hosts");
  expect(await kubectl("logs", "hosts")).toMatch(/^127\.1\d\d\.\d+\.\d+\s.*\bnamed\b[^]*default$/);
});

test("reports Kubernetes' reasons for missing, never pulled and unnamed images", async () => {
  await apply(
    pod("unknown", "containerd", { image: "127.0.0.1:9/none:1" }),
    pod("never", "containerd", { image: "example.org/none:1", imagePullPolicy: "Never" }),
    pod("always", "containerd", { imagePullPolicy: "Always", image: "127.0.0.1:9/busybox:1" }),
    pod("misnamed", "containerd", { image: "NOT/an::image" }),
  );
  await expect(apply(pod("classless", "gvisor", {}))).rejects.toThrow('pod rejected: RuntimeClass "gvisor" not found');
  await waiting("unknown", "ErrImagePull");
  await waiting("never", "ErrImageNeverPull");
  await waiting("always", "ErrImagePull");
  await waiting("misnamed", "InvalidImageName");
  const message = (await read("unknown")).status?.containerStatuses?.[0]?.state?.waiting?.message;
  // The reason may already be ImagePullBackOff, whose message repeats that of the last attempt.
  expect(message).toMatch(/Failed to pull image "127.0.0.1:9\/none:1": .*127.0.0.1:9 is unreachable/);
  // Retried after 10 s; the first failure stays the reason.
  await waiting("unknown", "ImagePullBackOff");
});

test("pulls an image with a pull secret, and reports the registry's rejection without one", async () => {
  const registry = await startRegistry(join(home, "busybox.tar"), "me:word");
  onTestFinished(() => registry.close());
  const name = `${registry.host}/tools/busybox:1`;
  await kubectl(
    ...["create", "secret", "docker-registry", "account", `--docker-server=${registry.host}`],
    ...["--docker-username=me", "--docker-password=word"],
  );
  const container = { image: name, command: sh("hostname; echo pulled") };
  await apply(
    pod("strange", "containerd", container),
    pod("known", "containerd", container, { imagePullSecrets: [{ name: "account" }] } as Partial<PodSpec>),
  );
  await ended("known");
  expect(await kubectl("logs", "known")).toBe("known\npulled\n");
  const events = async (of: string): Promise<string> =>
    kubectl("events", "--for", `pod/${of}`, "-o", "jsonpath={range .items[*]}{.reason} {.message}{'\\n'}{end}");
  await expect.poll(() => events("known"), { timeout: 20_000 }).toMatch(/Pulling Pulling image ".*busybox:1"/);
  await expect
    .poll(() => events("known"), { timeout: 20_000 })
    .toMatch(/Pulled Successfully pulled image ".*busybox:1" in .*s/);
  await expect
    .poll(() => events("strange"), { timeout: 20_000 })
    .toMatch(/Failed Failed to pull image .*denies anonymous access/);
  expect(await events("strange")).toMatch(/Failed Error: ErrImagePull/);
  // Present now: the registry is not contacted.
  await registry.close();
  await apply(pod("again", "containerd", container));
  await ended("again");
  await expect.poll(() => events("again"), { timeout: 20_000 }).toMatch(/Pulled Container image .* already present on machine/);
});

describe.each([
  ["containerd", "/bin/busybox"],
  ["bubblewrap", "busybox"],
])("with %s", (runtimeClassName, busybox) => {
  const name = `web-${runtimeClassName}`;
  const script = `echo began; mkdir /tmp/www; echo page > /tmp/www/index.html 2>/dev/null; exec ${busybox} httpd -f -p $KEELSON_POD_IP:8000 -h /tmp/www`;
  const find = async (): Promise<readonly PodObject[]> =>
    (JSON.parse(await kubectl("get", "pod", "-l", `app=${name}`, "-o", "json")) as { items: PodObject[] }).items;
  const run = promisify(execFile);

  test("runs a Deployment with two replicas, each with its own address, probes, logs, exec and a terminal", async () => {
    const container = {
      name: "main",
      image,
      command: sh(script.replace("mkdir", `${busybox} mkdir`)),
      readinessProbe: { httpGet: { port: 8000, path: "/" }, periodSeconds: 1 },
      livenessProbe: { exec: { command: sh("echo ok") }, periodSeconds: 1 },
    };
    await apply({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name },
      spec: {
        replicas: 2,
        selector: { matchLabels: { app: name } },
        template: {
          metadata: { labels: { app: name } },
          spec: { runtimeClassName, terminationGracePeriodSeconds: 1, containers: [container] },
        },
      },
    });
    await kubectl("rollout", "status", `deployment/${name}`, "--timeout=45s");
    const [first, second] = await find();
    expect(first?.status?.podIP).not.toBe(second?.status?.podIP);
    const pod = first?.metadata.name ?? "";
    expect(await kubectl("logs", pod)).toBe("began\n");
    expect(await kubectl("exec", pod, "--", "/bin/sh", "-c", "echo $KEELSON_POD_IP")).toBe(`${first?.status?.podIP}\n`);
    await expect(kubectl("exec", pod, "--", "/bin/sh", "-c", "exit 7")).rejects.toThrow(/exit code 7/);
    const line = `kubectl --kubeconfig ${keelson.kubeconfig} exec -it ${pod} -- /bin/sh -c 'test -t 0 && echo a terminal'`;
    const { stdout } = await run("script", ["--quiet", "--return", "--command", line, "/dev/null"]);
    expect(stdout).toContain("a terminal");
  });

  test("run -it provides a terminal from the start and returns the exit status", async () => {
    const overrides = JSON.stringify({ spec: { runtimeClassName } });
    const script = `read -r x; test -t 0 && echo "terminal $TERM got $x"; exit 6`;
    const line =
      `kubectl --kubeconfig ${keelson.kubeconfig} run term-${runtimeClassName} -it --image=${image} --restart=Never ` +
      `--overrides='${overrides}' --command -- /bin/sh -c '${script}'`;
    const child = execFile("script", ["--quiet", "--return", "--command", line, "/dev/null"]);
    let output = "";
    child.stdout?.on("data", (text: string) => {
      if (!output.includes("prompt") && (output + text).includes("prompt")) child.stdin?.write("typed\r");
      output += text;
    });
    const [code] = (await once(child, "exit")) as [number];
    expect(output).toContain("terminal xterm got typed");
    expect(code).toBe(6);
  });

  test("programs survive kill -9 of keelson up and end with their Deployment", async () => {
    const before = await find();
    keelson = await killAndRestart(keelson, folder.path, ...flags);
    await kubectl("rollout", "status", `deployment/${name}`, "--timeout=45s");
    const after = await find();
    const view = (pods: readonly PodObject[]): unknown =>
      pods.map(({ metadata, status }) => [
        metadata.uid,
        status?.podIP,
        status?.containerStatuses?.[0]?.state?.running?.startedAt,
      ]);
    expect(view(after)).toEqual(view(before));
    expect(after.map(({ status }) => status?.containerStatuses?.[0]?.restartCount)).toEqual([0, 0]);
    await kubectl("delete", "deployment", name, "--cascade=foreground", "--timeout=45s");
    expect(await find()).toEqual([]);
    expect(readFileSync(join(keelson.dataDir, "keelson.log"), "utf8")).not.toMatch(/forbidden/i);
  });
});

test.each(["process", "bubblewrap", "containerd"])("enforces the fields of a Pod with %s", async (runtimeClassName) => {
  const name = `fields-${runtimeClassName}`;
  const script = [
    "trap 'exit 9' USR1",
    "echo prefix $P_key",
    "echo $NAME $LIMIT",
    "cat /sub/file",
    "set -- $(ls -lL /conf/key); echo $1",
    'while read -r ip name; do [ "$name" != extra.example ] || echo alias $ip; done </etc/hosts',
    "echo said >/var/said",
    "while :; do sleep 0.1; done",
  ];
  const env = [
    { name: "NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
    { name: "LIMIT", valueFrom: { resourceFieldRef: { resource: "limits.memory", divisor: "1Mi" } } },
  ];
  await apply(
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { key: "of the map\n" } },
    pod(
      name,
      runtimeClassName,
      {
        command: sh(script.join("\n")),
        envFrom: [{ prefix: "P_", configMapRef: { name } }],
        env: env as NonNullable<Container["env"]>,
        resources: { limits: { memory: "64Mi" } },
        lifecycle: { stopSignal: "SIGUSR1" },
        // The test stops it once it has printed everything.
        livenessProbe: {
          exec: { command: sh("! read -r line </var/said") },
          periodSeconds: 1,
          timeoutSeconds: 30,
          failureThreshold: 1,
        },
        terminationMessagePath: "/var/said",
        volumeMounts: [
          { name: "conf", mountPath: "/conf" },
          { name: "conf", mountPath: "/sub/file", subPath: "key" },
        ],
      },
      {
        os: { name: "linux" },
        terminationGracePeriodSeconds: 30,
        hostAliases: [{ ip: "127.9.9.9", hostnames: ["extra.example"] }],
        volumes: [{ name: "conf", configMap: { name, defaultMode: 0o440 } }],
      } as Partial<PodSpec>,
    ),
  );
  await kubectl("wait", `pod/${name}`, "--for=jsonpath={.status.phase}=Failed", "--timeout=45s");
  const lines = ["prefix of the map", `${name} 64`, "of the map", "-r--r-----", "alias 127.9.9.9"];
  expect((await kubectl("logs", name)).split("\n").slice(0, lines.length)).toEqual(lines);
  const { status } = await read(name);
  expect(status?.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 9, message: "said\n" });
});

test("mounts a read-only root file system with containerd, and reports the field as ignored for processes", async () => {
  const container = {
    command: sh("echo x 2>/dev/null >/bin/x || echo kept"),
    securityContext: { readOnlyRootFilesystem: true },
  };
  await apply(pod("kept", "containerd", container), pod("open", "process", { ...container, command: ["true"] }));
  await ended("kept");
  expect(await kubectl("logs", "kept")).toMatch(/^kept$/m);
  const told = ["events", "--for", "pod/open", "-o", "jsonpath={.items[*].message}"];
  await expect
    .poll(() => kubectl(...told), { timeout: 20_000 })
    .toContain("does not honour securityContext.readOnlyRootFilesystem of container main");
});

test("bubblewrap exposes the machine's programs read-only and hides its processes", async () => {
  await apply(
    pod("apart", "bubblewrap", { command: sh("touch /usr/x; cat /proc/1/cmdline | tr '\\0' ' '; ls /home 2>&1; pwd") }),
  );
  await ended("apart");
  const log = await kubectl("logs", "apart");
  expect(log).toMatch(/Read-only file system/);
  expect(log).not.toMatch(/init|systemd/);
});

test("bubblewrap runs an imported image with its files, program, environment, working directory and user", async () => {
  const unpacked = "example.org/busybox:unpacked";
  // Another user must be able to traverse to the data directory.
  chmodSync(folder.path, 0o711);
  const archive = join(home, "unpacked.tar");
  const words = { Entrypoint: ["/bin/sh", "-c"], Cmd: ["cat /etc/motd; echo $FROM_IMAGE; pwd; id -u"] };
  await createBusyboxImage(archive, { ...words, User: "worker", WorkingDir: "/etc" });
  const places = ["--data-dir", keelson.dataDir, "--containerd-address", "none"];
  const importing = startKeelson(["image", "import", archive, unpacked, ...places]);
  expect(await importing.exited, importing.output()).toBe(0);
  const script =
    "id -u; cat /conf/a; busybox hostname; busybox grep localhost /etc/hosts >/dev/null && echo hosts; touch /x; echo x >/tmp/x && cat /tmp/x";
  await apply(
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "conf" }, data: { a: "from a config map\n" } },
    pod("own", "bubblewrap", { image: unpacked }),
    pod(
      "given",
      "bubblewrap",
      {
        image: unpacked,
        args: [script],
        securityContext: { runAsUser: 7 },
        volumeMounts: [{ name: "conf", mountPath: "/conf", readOnly: true }],
      } as Partial<Container>,
      { volumes: [{ name: "conf", configMap: { name: "conf" } }] } as Partial<PodSpec>,
    ),
    ...[true, false].map((readOnlyRootFilesystem) =>
      pod(readOnlyRootFilesystem ? "read-only" : "writable", "bubblewrap", {
        image: unpacked,
        args: [
          "cp /etc/motd /x; echo changed >/etc/motd; cat /x /etc/motd; busybox stat -c %u /etc/motd; cat /var/run/secrets/*/*/namespace",
        ],
        securityContext: { runAsUser: 0, readOnlyRootFilesystem },
      } as Partial<Container>),
    ),
  );
  await ended("own");
  expect(await kubectl("logs", "own")).toBe("above\nyes\n/etc\n1234\n");
  await ended("given");
  expect(await kubectl("logs", "given")).toMatch(/^7\nfrom a config map\ngiven\nhosts\n.*Permission denied\nx\n$/);
  await ended("writable");
  expect(await kubectl("logs", "writable")).toBe("above\nchanged\n0\ndefault");
  await ended("read-only");
  expect(await kubectl("logs", "read-only")).toMatch(/^.*Read-only file system\n.*Read-only file system\n.*\nabove\n/);
});
