import type { ContainerImage } from "@keelson/execution";
import { expect, test } from "vitest";
import { ContainerConfigError } from "../container/environment.ts";
import { imageWords, isolatedParts } from "../container/isolated-program.ts";
import { containerImage, ImageProblem, type PodImages, pullCredentials } from "./pod-images.ts";
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
const here = "docker.io/library/busybox:1";

/** Images with one that is here and a registry that has another; `asked` is what was asked of it. */
function imagesWith(asked: string[]): PodImages {
  return {
    find: (name) => Promise.resolve(name === here ? image(name) : undefined),
    pull(name) {
      asked.push(name);
      return name.includes("missing") ? Promise.reject(new Error("there is none")) : Promise.resolve(image(name));
    },
  };
}

test.each([
  ["IfNotPresent", "busybox:1", here, [], ["Pulled"]],
  ["IfNotPresent", "alpine", "docker.io/library/alpine:latest", ["docker.io/library/alpine:latest"], ["Pulling", "Pulled"]],
  ["Always", "busybox:1", here, [here], ["Pulling", "Pulled"]],
  ["Never", "busybox:1", here, [], ["Pulled"]],
] as const)("with %s, %s is %s", async (imagePullPolicy, name, full, pulls, news) => {
  const asked: string[] = [];
  const told: string[] = [];
  const found = await containerImage(
    { name: "c", image: name, imagePullPolicy },
    imagesWith(asked),
    (reason) => told.push(reason),
    () => 0,
  );
  expect(found.name).toBe(full);
  expect(asked).toEqual(pulls);
  expect(told).toEqual(news);
});

test.each([
  ["IfNotPresent", "missing", "ErrImagePull"],
  ["Always", "missing", "ErrImagePull"],
  ["Never", "alpine", "ErrImageNeverPull"],
  ["Always", "Not::an image", "InvalidImageName"],
] as const)("with %s, %s is %s", async (imagePullPolicy, name, reason) => {
  const finding = containerImage(
    { name: "c", image: name, imagePullPolicy },
    imagesWith([]),
    () => {},
    () => 0,
  );
  await expect(finding).rejects.toSatisfy((error) => error instanceof ImageProblem && error.reason === reason);
});

// https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container, "Notes".
test.each([
  ["neither: the image's both", {}, ["/entry", "default"]],
  ["a command: that alone", { command: ["/own"] }, ["/own"]],
  ["arguments: with the image's entrypoint", { args: ["x"] }, ["/entry", "x"]],
  ["both: nothing of the image's", { command: ["/own"], args: ["x"] }, ["/own", "x"]],
])("a container with %s", (_name, given, words) => {
  expect(imageWords({ name: "c", ...given }, image(here, ["/entry"], ["default"]))).toEqual(words);
});

test("a container without a command whose image has none is refused", () => {
  expect(() => imageWords({ name: "c", image: "scratch" }, image(here))).toThrow(ContainerConfigError);
});

test("a Pod's name is the host name it sees, as long as one may be, unless it has the host's network", () => {
  const pod = (name: string, hostNetwork = false): PodView =>
    ({ metadata: { name }, spec: { containers: [], hostNetwork } }) as unknown as PodView;
  const hostname = (view: PodView): string | undefined => isolatedParts(view, { name: "c" }, [], undefined).isolation.hostname;
  expect(hostname(pod("web-0"))).toBe("web-0");
  expect(hostname(pod(`${"x".repeat(62)}.y`))).toBe("x".repeat(62));
  expect(hostname(pod("web-0", true))).toBeUndefined();
});

test("the accounts of a Pod's pull secrets are asked in their order; what is missing, damaged or of another type is left out", async () => {
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
