import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { promisify } from "node:util";
import { type KubernetesObject, type Status, statusError, systemClock } from "@keelson/api-machinery";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Auth, startAuth } from "../auth/auth.ts";
import { writeKubeconfig } from "../auth/kubeconfig.ts";
import { ensurePki, issueClientCertificate, type Pki } from "../auth/pki.ts";
import { forbidden } from "../auth/rbac-authorizer.ts";
import type { EncodedObject, Handle, Outcome, WatchSink } from "../endpoints/outcome.ts";
import { requestInfo } from "../endpoints/request-info.ts";
import type { ServedResource } from "../registry/served-resource.ts";
import { openStore } from "../storage/lmdb-store.ts";
import type { Store } from "../storage/store.ts";
import { type HttpServer, startHttpServer } from "./http-server.ts";

const configMaps: ServedResource = {
  group: "",
  version: "v1",
  kind: "ConfigMap",
  listKind: "ConfigMapList",
  plural: "configmaps",
  singular: "configmap",
  shortNames: ["cm"],
  categories: [],
  scope: "Namespaced",
  verbs: ["get", "list", "watch"],
  storageApiVersion: "v1",
  schema: { type: "object" },
  origin: "builtin",
  hasStatus: false,
  columns: [],
  strategy: {},
  selectableFields: {},
};

function configMap(name: string): EncodedObject {
  const object = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: "default", resourceVersion: "5" },
    data: {},
  };
  return { object, bytes: Buffer.from(JSON.stringify(object)) };
}

const resources = (groupVersion: string, ...entries: object[]): Outcome => ({
  kind: "document",
  status: 200,
  body: { kind: "APIResourceList", apiVersion: "v1", groupVersion, resources: entries },
});
const resource = (name: string, kind: string, namespaced: boolean, verbs: readonly string[]): object => ({
  name,
  singularName: kind.toLowerCase(),
  kind,
  namespaced,
  verbs,
});
const groups = ["authentication.k8s.io", "authorization.k8s.io"].map((name) => {
  const version = { groupVersion: `${name}/v1`, version: "v1" };
  return { name, versions: [version], preferredVersion: version };
});

/** As much of a pipeline as kubectl needs: discovery, ConfigMaps that are always the same, and reviews. */
const documents: Readonly<Record<string, Outcome>> = {
  "/version": { kind: "document", status: 200, body: { major: "1", minor: "35", gitVersion: "v1.35.0" } },
  "/api": { kind: "document", status: 200, body: { kind: "APIVersions", versions: ["v1"] } },
  "/apis": { kind: "document", status: 200, body: { kind: "APIGroupList", apiVersion: "v1", groups } },
  "/api/v1": resources("v1", { ...resource("configmaps", "ConfigMap", true, configMaps.verbs), shortNames: ["cm"] }),
  "/apis/authentication.k8s.io/v1": resources(
    "authentication.k8s.io/v1",
    resource("selfsubjectreviews", "SelfSubjectReview", false, ["create"]),
  ),
  "/apis/authorization.k8s.io/v1": resources(
    "authorization.k8s.io/v1",
    resource("selfsubjectaccessreviews", "SelfSubjectAccessReview", false, ["create"]),
  ),
};

let directory: string;
let pki: Pki;
let store: Store;
let auth: Auth;
let server: HttpServer;
let watcher: (sink: WatchSink) => void = () => undefined;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-kubectl-"));
  const now = systemClock.now();
  pki = await ensurePki(join(directory, "pki"), now);
  store = await openStore({ dir: join(directory, "store"), clock: systemClock, sync: false });
  auth = await startAuth({ store, tokenKey: pki.tokenKey, now: () => systemClock.now(), newId: randomUUID });

  const handle: Handle = async (request) => {
    const info = requestInfo(request);
    const target = info.isResource ? info : { path: info.path };
    const refuse = (status: Status): Outcome => ({ kind: "status", status });
    if (!(await auth.authorize(request.user, info)).allowed) return refuse(forbidden(request.user, info.verb, target).status);
    const document = documents[request.path];
    if (document !== undefined) return document;
    if (!info.isResource) return refuse(statusError("NotFound", "the server could not find the requested resource").status);
    if (info.verb === "create") {
      const evaluate =
        info.resource === "selfsubjectreviews" ? auth.reviews.selfSubjectReview : auth.reviews.selfSubjectAccessReview;
      const object = await evaluate(request.body as KubernetesObject, { user: request.user, namespace: "", name: "" });
      return {
        kind: "object",
        status: 201,
        object: { object, bytes: Buffer.from(JSON.stringify(object)) },
        resource: configMaps,
        subresource: "",
      };
    }
    if (info.verb === "watch") {
      const open = (sink: WatchSink): { close(): void } => {
        watcher(sink);
        return { close: () => undefined };
      };
      return { kind: "watch", resource: configMaps, open };
    }
    return {
      kind: "list",
      items: [configMap("a"), configMap("b")],
      listMeta: { resourceVersion: "5" },
      resource: configMaps,
      itemSkip: 0,
    };
  };
  server = await startHttpServer({
    handle,
    authenticate: auth.authenticate,
    tls: { ...pki.server, clientAuthority: pki.authority.certificate },
    toTable: (_, objects) => ({
      columnDefinitions: [{ name: "Name", type: "string", format: "name", description: "", priority: 0 }],
      rows: objects.map(({ metadata }) => ({
        cells: [metadata.name],
        object: { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata },
      })),
    }),
    port: 0,
  });
  const common = { server: server.url, authority: pki.authority.certificate };
  await writeKubeconfig(join(directory, "admin"), { ...common, credentials: pki.admin });
  const jane = await issueClientCertificate(pki, { name: "jane", groups: ["dev"] }, now);
  await writeKubeconfig(join(directory, "jane"), { ...common, credentials: jane });
});
afterAll(async () => {
  await server.close();
  auth.close();
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const environment = (who: string): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"],
  HOME: directory,
  KUBECONFIG: join(directory, who),
});

async function kubectl(who: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  try {
    return await promisify(execFile)("kubectl", args, { env: environment(who) });
  } catch (error) {
    return error as { stdout: string; stderr: string };
  }
}

describe("kubectl", () => {
  test("connects by the kubeconfig, over TLS that it verifies, as the administrator", async () => {
    expect(JSON.parse((await kubectl("admin", "get", "--raw", "/version")).stdout)).toMatchObject({ gitVersion: "v1.35.0" });
    const { stdout } = await kubectl("admin", "auth", "whoami", "-o", "json");
    expect(JSON.parse(stdout).status.userInfo).toEqual({
      username: "kubernetes-admin",
      groups: ["system:masters", "system:authenticated"],
    });
  });

  test("lists as a Table", async () => {
    expect((await kubectl("admin", "get", "cm")).stdout.split(/\s+/)).toEqual(["NAME", "a", "b", ""]);
  });

  test("is refused what RBAC does not give, and says why", async () => {
    const { stderr } = await kubectl("jane", "get", "configmaps");
    expect(stderr).toContain(
      'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace "default"',
    );
    expect((await kubectl("jane", "auth", "can-i", "list", "configmaps")).stdout.trim()).toBe("no");
    expect((await kubectl("admin", "auth", "can-i", "list", "configmaps")).stdout.trim()).toBe("yes");
    expect((await kubectl("admin", "auth", "can-i", "list", "configmaps", "--as", "jane")).stdout.trim()).toBe("no");
  });

  test("follows a watch of Tables to its end", async () => {
    const opened = new Promise<WatchSink>((resolve) => {
      watcher = resolve;
    });
    const child: ChildProcessByStdio<null, Readable, null> = spawn("kubectl", ["get", "cm", "--watch"], {
      env: environment("admin"),
      stdio: ["ignore", "pipe", "ignore"],
    });
    const exited = new Promise<void>((resolve) => child.on("exit", () => resolve()));
    let text = "";
    child.stdout.on("data", (chunk) => (text += String(chunk)));
    const sink = await opened;
    sink.events([{ type: "ADDED", object: configMap("c") }]);
    sink.end();
    await exited;
    expect(text.split(/\s+/)).toEqual(["NAME", "a", "b", "c", ""]);
  });
});
