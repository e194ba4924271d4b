import type { ContainerImage } from "@keelson/execution";
import { expect, test } from "vitest";
import { isContainerError } from "../container/container-error.ts";
import { imageCommand, isolatedParts } from "../container/isolated-program.ts";
import { containerImage, type PodImages, pullCredentials } from "./pod-images.ts";
import type { PodView } from "../pod/pod-view.ts";

const image = (name: string, entrypoint: string[] = [], command: string[] = []): ContainerImage => ({
  name,
  digest: "sha256:1",
  chainId: "",
  diffIds: [],
  entrypoint,
  command,
  env: {},
});
const presentImage = "docker.io/library/busybox:1";

/** A store with one image and a registry with all others except `missing`; `pulls` records requests to the registry. */
function imagesWith(pulls: string[]): PodImages {
  return {
    find: (name) => Promise.resolve(name === presentImage ? image(name) : undefined),
    pull(name) {
      pulls.push(name);
      return name.includes("missing") ? Promise.reject(new Error("not found")) : Promise.resolve(image(name));
    },
  };
}

test.each([
  ["IfNotPresent", "busybox:1", presentImage, [], ["Pulled"]],
  ["IfNotPresent", "alpine", "docker.io/library/alpine:latest", ["docker.io/library/alpine:latest"], ["Pulling", "Pulled"]],
  ["Always", "busybox:1", presentImage, [presentImage], ["Pulling", "Pulled"]],
  ["Never", "busybox:1", presentImage, [], ["Pulled"]],
] as const)("with policy %s, %s resolves to %s", async (imagePullPolicy, name, full, pulls, reasons) => {
  const requested: string[] = [];
  const events: string[] = [];
  const found = await containerImage(
    { name: "c", image: name, imagePullPolicy },
    imagesWith(requested),
    (reason) => events.push(reason),
    () => 0,
  );
  expect(found.name).toBe(full);
  expect(requested).toEqual(pulls);
  expect(events).toEqual(reasons);
});

test.each([
  ["IfNotPresent", "missing", "ErrImagePull"],
  ["Always", "missing", "ErrImagePull"],
  ["Never", "alpine", "ErrImageNeverPull"],
  ["Always", "Not::an image", "InvalidImageName"],
] as const)("with policy %s, %s fails with %s", async (imagePullPolicy, name, reason) => {
  const finding = containerImage(
    { name: "c", image: name, imagePullPolicy },
    imagesWith([]),
    () => {},
    () => 0,
  );
  await expect(finding).rejects.toSatisfy((error) => isContainerError(error) && error.code === reason);
});

// https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container, "Notes".
test.each([
  ["neither command nor args uses both of the image's", {}, ["/entry", "default"]],
  ["a command uses nothing of the image's", { command: ["/own"] }, ["/own"]],
  ["args uses the image's entrypoint", { args: ["x"] }, ["/entry", "x"]],
  ["command and args uses nothing of the image's", { command: ["/own"], args: ["x"] }, ["/own", "x"]],
])("a container with %s", (_name, fields, words) => {
  expect(imageCommand({ name: "c", ...fields }, image(presentImage, ["/entry"], ["default"]))).toEqual(words);
});

test("a container without a command is rejected if its image has none", () => {
  expect(() => imageCommand({ name: "c", image: "scratch" }, image(presentImage))).toThrow(/have no command/);
});

test("the host name is the Pod's name, truncated to the maximum length, unless it uses the host network", () => {
  const pod = (name: string, hostNetwork = false): PodView =>
    ({ metadata: { name }, spec: { containers: [], hostNetwork } }) as unknown as PodView;
  const hostname = (view: PodView): string | undefined => isolatedParts(view, { name: "c" }, [], undefined).isolation.hostname;
  expect(hostname(pod("web-0"))).toBe("web-0");
  expect(hostname(pod(`${"x".repeat(62)}.y`))).toBe("x".repeat(62));
  expect(hostname(pod("web-0", true))).toBeUndefined();
});

test("pull secrets are consulted in order; missing, damaged and unrelated ones are skipped", async () => {
  const auth = (pair: string): string => Buffer.from(pair).toString("base64");
  const bytes = (value: unknown): Uint8Array => Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
  const secrets: Record<string, ReadonlyMap<string, Uint8Array>> = {
    new: new Map([[".dockerconfigjson", bytes({ auths: { "a.example": { auth: auth("me:one") } } })]]),
    old: new Map([
      [".dockercfg", bytes({ "https://b.example/": { auth: auth("me:two") }, "a.example": { auth: auth("me:no") } })],
    ]),
    damaged: new Map([[".dockerconfigjson", bytes("{")]]),
    other: new Map([["key", bytes("x")]]),
  };
  const ask = (...names: readonly string[]) => {
    const spec = { containers: [], imagePullSecrets: names.map((name) => ({ name })) };
    const pod = { metadata: { name: "p" }, spec } as unknown as PodView;
    return pullCredentials(pod, (name) => Promise.resolve(secrets[name]));
  };
  const found = await ask("missing", "damaged", "other", "new", "old");
  expect(found?.("a.example")).toEqual({ username: "me", password: "one" });
  expect(found?.("b.example")).toEqual({ username: "me", password: "two" });
  expect(found?.("c.example")).toBeUndefined();
  expect(await ask("missing", "damaged")).toBeUndefined();
  expect(await ask()).toBeUndefined();
});
