import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { writeKubeconfig } from "../auth/certificates/kubeconfig.ts";
import { ensurePki, issueClientCertificate } from "../auth/certificates/pki.ts";
import { systemRandom } from "../endpoints/random-source.ts";
import { serveApi } from "../serving/serve-api.ts";
import type { ServedApi } from "../serving/serve-options.ts";

let directory: string;
let api: ServedApi;
let authority: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-kubectl-"));
  api = await serveApi({ dataDir: directory, port: 0, clock: systemClock, random: systemRandom });
  const pki = await ensurePki(join(directory, "pki"), systemClock.now());
  authority = pki.authority.certificate;
  const jane = await issueClientCertificate(pki, { name: "jane", groups: ["dev"] }, systemClock.now());
  await writeKubeconfig(join(directory, "jane"), { server: api.url, authority, credentials: jane });
});
afterAll(async () => {
  await api.close();
  await rm(directory, { recursive: true, force: true });
});

const environment = (who: string): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"],
  HOME: directory,
  KUBECONFIG: join(directory, who),
});

/** Runs kubectl and answers what it printed, on both streams where it failed. */
async function kubectl(who: string, ...args: string[]): Promise<string> {
  try {
    return (await promisify(execFile)("kubectl", args, { env: environment(who) })).stdout.trim();
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return `${stdout}${stderr}`.trim();
  }
}

describe("kubectl", () => {
  test("connects as the administrator over verified TLS with the kubeconfig", async () => {
    expect(await readFile(api.kubeconfig, "utf8")).toContain(api.url);
    // `kubectl auth whoami` sends the same, from 1.27 on.
    const question = join(directory, "whoami.yaml");
    await writeFile(question, "apiVersion: authentication.k8s.io/v1\nkind: SelfSubjectReview\n");
    const review = JSON.parse(await kubectl("kubeconfig", "create", "-f", question, "-o", "json", "--validate=false"));
    expect(review.status.userInfo).toMatchObject({
      username: "kubernetes-admin",
      groups: ["system:masters", "system:authenticated"],
    });
  });

  test("creates objects in protobuf and reads them as JSON, YAML and a Table", async () => {
    expect(await kubectl("kubeconfig", "create", "configmap", "a", "--from-literal=k=v")).toBe("configmap/a created");
    expect(await kubectl("kubeconfig", "get", "cm", "a", "-o", "jsonpath={.data.k}")).toBe("v");
    expect(await kubectl("kubeconfig", "get", "cm", "a", "-o", "yaml")).toContain("k: v");
    expect(await kubectl("kubeconfig", "get", "cm")).toMatch(/^NAME +DATA +AGE\n(.*\n)*a +1 +\d+s/);
    expect(await kubectl("kubeconfig", "create", "secret", "generic", "s", "--from-literal=p=q")).toBe("secret/s created");
    expect(await kubectl("kubeconfig", "get", "secret", "s", "-o", "jsonpath={.data.p}")).toBe("cQ==");
  });

  test("follows a watch of Tables", async () => {
    const child = spawn("kubectl", ["get", "cm", "--watch"], {
      env: environment("kubeconfig"),
      stdio: ["ignore", "pipe", "ignore"],
    });
    const exited = new Promise<void>((resolve) => child.on("exit", () => resolve()));
    let text = "";
    const seen = (pattern: RegExp): Promise<void> =>
      new Promise((resolve) => {
        const look = (): void => {
          if (pattern.test(text)) resolve();
        };
        child.stdout.on("data", look);
        look();
      });
    child.stdout.on("data", (chunk) => (text += String(chunk)));
    await seen(/^NAME/);
    await kubectl("kubeconfig", "create", "configmap", "later", "--from-literal=x=y");
    await seen(/^later +1/m);
    child.kill();
    await exited;
    expect(text.match(/NAME/g)).toHaveLength(1);
  });

  test("is denied requests that RBAC does not allow, even with a token and when impersonating", async () => {
    expect(await kubectl("jane", "get", "configmaps")).toContain(
      'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace "default"',
    );
    await kubectl("kubeconfig", "create", "serviceaccount", "bot");
    // What `kubectl create token` asks for, from 1.24 on.
    const path = "/api/v1/namespaces/default/serviceaccounts/bot/token";
    const asked = join(directory, "token.json");
    await writeFile(asked, JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} }));
    const { token } = JSON.parse(await kubectl("kubeconfig", "create", "--raw", path, "-f", asked)).status;
    await writeKubeconfig(join(directory, "bot"), { server: api.url, authority, credentials: { token } });
    expect(await kubectl("bot", "auth", "can-i", "list", "configmaps")).toContain("no");
    await kubectl("kubeconfig", "create", "rolebinding", "view", "--clusterrole=view", "--serviceaccount=default:bot");
    expect(await kubectl("bot", "get", "cm", "a", "-o", "name")).toBe("configmap/a");
    expect(await kubectl("bot", "get", "secrets")).toContain("Forbidden");
    expect(await kubectl("bot", "get", "cm", "a", "--as=jane")).toContain('users "jane" is forbidden');
    expect(await kubectl("kubeconfig", "auth", "can-i", "list", "cm", "--as=system:serviceaccount:default:bot")).toBe("yes");
    await kubectl("kubeconfig", "delete", "serviceaccount", "bot");
    expect(await kubectl("bot", "get", "cm", "a")).toContain("Unauthorized");
  });

  test("cannot escalate its permissions by creating roles", async () => {
    await kubectl("kubeconfig", "create", "role", "rbac", "--verb=*", "--resource=roles,rolebindings");
    await kubectl("kubeconfig", "create", "rolebinding", "rbac", "--role=rbac", "--user=jane");
    // "*" holds escalate and bind too; plain write verbs do not.
    expect(await kubectl("jane", "create", "role", "any", "--verb=get", "--resource=secrets")).toBe(
      "role.rbac.authorization.k8s.io/any created",
    );
    await kubectl("kubeconfig", "delete", "role", "rbac");
    await kubectl("kubeconfig", "create", "role", "rbac", "--verb=get,create", "--resource=roles,rolebindings");
    expect(await kubectl("jane", "create", "role", "more", "--verb=get", "--resource=secrets")).toContain(
      "attempting to grant RBAC permissions not currently held",
    );
    expect(await kubectl("jane", "create", "rolebinding", "more", "--clusterrole=cluster-admin", "--user=jane")).toContain(
      "forbidden",
    );
  });
});
