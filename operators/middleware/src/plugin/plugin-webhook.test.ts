import { readFileSync } from "node:fs";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";
import {
  ClusterRole,
  ClusterRoleBinding,
  ConfigMap,
  type ConfigMapObject,
  Role,
  RoleBinding,
  Secret,
} from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { configurationKinds } from "@keelson/controller/webhooks";
import { clusterRulesOf, type RunningOperator, startOperator, webhookCertificateRules } from "@keelson/operator";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { createMiddleware } from "../operator.ts";
import { pluginProblem } from "./check-plugin.ts";
import { createPluginWebhook } from "./plugin-webhook.ts";
import { redisPlugin } from "./redis-plugin.ts";

const redis = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "redis-v1.0.0" },
  data: redisPlugin.data,
} as ConfigMapObject;
const [web] = parseAllDocuments(readFileSync(new URL("../../../../examples/middleware/web.yaml", import.meta.url), "utf8")).map(
  (document) => document.toJSON() as ConfigMapObject,
);

/** The example with a text replaced in its documents. */
function changed(from: string, to: string): ConfigMapObject {
  const data = Object.fromEntries(Object.entries(web?.data ?? {}).map(([key, text]) => [key, text.replace(from, to)]));
  return { ...redis, metadata: { name: "web-v1.0.0", namespace: "default" }, data };
}

describe("a plugin", () => {
  it("has no problem if its defaults render", async () => {
    expect(await pluginProblem(redis, ["agent"])).toBeUndefined();
    expect(await pluginProblem(changed("", ""), ["agent"])).toBeUndefined();
  });

  it("may require values of an App", async () => {
    const required = '{{ required "set values.title" .Values.title | quote }}';
    expect(await pluginProblem(changed('{{ printf "<h1>%s</h1>\\n" .Config.title | quote }}', required), [])).toBeUndefined();
    expect(
      await pluginProblem(changed("index.html: ", '{{ if not .Values.x }}{{ fail "no x" }}{{ end }}index.html: '), []),
    ).toBeUndefined();
  });

  it.each(['{{ required "set values.image" .Values.image }}', '{{ required "set a port" .Values.title | quote }}'])(
    "may require a value without a default, quoted or not: %s",
    async (image) => {
      expect(await pluginProblem(changed("{{ .Image | quote }}", image), [])).toBeUndefined();
      const port = '{{ required "set values.listen" .Values.listen }}';
      expect(await pluginProblem(changed("containerPort: {{ .Values.port }}", `containerPort: ${port}`), [])).toBeUndefined();
      const number = await pluginProblem(changed("{{ .Image | quote }}", "7"), []);
      expect(number).toContain("Pod: spec.containers[0].image: required");
    },
  );

  it.each<[string, string, string, string]>([
    ["a template that does not parse", "{{- with .Resources }}", "{{- with }}", "templates[0]: pod.yaml:17:"],
    [
      "a missing key",
      ".Values.port | quote",
      ".Values.prot | quote",
      "template pod.yaml:8:61: quote: argument 1: .Values.prot: key not found; add it to defaultValues",
    ],
    ["a missing parameter", ".Config.title | quote", ".Config.titel | quote", ".Config.titel: key not found"],
    ["an unknown function", "toYaml . |", "toYml . |", 'function "toYml" not found'],
    ["an invalid Pod", "image: {{ .Image | quote }}", 'image: ""', "Pod: spec.containers[0].image: required"],
    ["another name than that of its ConfigMap", "name: web\n", "name: site\n", "the name of the ConfigMap must be site-v1.0.0"],
    [
      "a Pod that is not restarted",
      "terminationGracePeriodSeconds: 5",
      "restartPolicy: Never",
      "must be Always without an agent",
    ],
  ])("is rejected for %s", async (_, from, to, message) => {
    expect(changed(from, to).data).not.toEqual(web?.data);
    expect(await pluginProblem(changed(from, to), [])).toContain(message);
  });
});

describe("a hostile plugin", () => {
  const document = web?.data?.["plugin.yaml"] ?? "";
  const problem = (data: Readonly<Record<string, string>>) =>
    pluginProblem({ ...changed("", ""), data: { ...web?.data, ...data } }, []);
  const service = (key: string, count: number) => `    - {name: x, type: Service, key: ${key}}\n`.repeat(count);
  /** The document with further templates. */
  const withTemplates = (key: string, count: number) => ({ "plugin.yaml": `${document.trimEnd()}\n${service(key, count)}` });
  const tooLong = "the plugin takes too long to check";

  it("is rejected for a long document, before it is parsed", async () => {
    const long = `${document}#${"x".repeat(65_536)}`;
    expect(await problem({ "plugin.yaml": long })).toContain("must have at most 65536 characters");
    expect(await problem({ "plugin.yaml": `apiVersion: example.com/v1\n${long}` })).toBeUndefined();
  });

  it("is rejected for too many templates", async () => {
    const message = "templates: must have at most 64 entries, has 303";
    expect(await problem({ ...withTemplates("loop", 300), loop: "{{ range until 9000 }}{{ end }}" })).toBe(message);
  });

  it("is rejected for steps or texts that are too many over all templates, not only in one", async () => {
    const loop = "{{ range until 4000 }}{{ end }}";
    expect(await problem({ ...withTemplates("loop", 2), loop })).toBeUndefined();
    expect(await problem({ ...withTemplates("loop", 8), loop })).toContain(tooLong);
    const text = `{{ $text := "${"x".repeat(4000)}" }}`;
    const upper = (count: number) => `${text}{{ range until ${count} }}{{ $x := upper $text }}{{ end }}`;
    expect(await problem({ ...withTemplates("upper", 1), upper: upper(100) })).toBeUndefined();
    expect(await problem({ ...withTemplates("upper", 4), upper: upper(100) })).toContain(tooLong);
    const contains = `${text}{{ range until 300 }}{{ if contains "y" $text }}{{ end }}{{ end }}`;
    expect(await problem({ ...withTemplates("contains", 1), contains })).toContain(tooLong);
  });

  it("does not keep the operator from other work while its templates are parsed and rendered", async () => {
    let turns = 0;
    let isDone = false;
    const count = (): void => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    const loop = "{{ range until 240 }}{{ end }}";
    expect(await problem({ ...withTemplates("loop", 60), loop })).toBeUndefined();
    isDone = true;
    // A turn for each template, twice.
    expect(turns).toBeGreaterThan(120);
  });

  it("is admitted with a warning while too many others are checked, and checked later", async () => {
    const [webhook] = createPluginWebhook([]).webhooks;
    const object = changed(".Values.port | quote", ".Values.prot | quote");
    const warnings: string[] = [];
    const handle = async () => {
      const context = { warn: (text: string) => void warnings.push(text) } as never;
      const request = { operation: "CREATE", name: "web-v1.0.0", object } as never;
      return webhook?.handle(request, context);
    };
    const results = await Promise.allSettled(Array.from({ length: 9 }, handle));
    expect(results.map(({ status }) => status)).toEqual([...Array.from({ length: 8 }, () => "rejected"), "fulfilled"]);
    expect(warnings).toEqual([expect.stringContaining("too many plugins are being checked")]);
    await expect(handle()).rejects.toThrow("key not found");
  });
});

describe("the API server, while the operator runs with its own permissions,", { timeout: 120_000 }, () => {
  const operator = { ...createMiddleware(), controllers: () => [], servers: [] };
  let environment: TestEnvironment;
  let running: RunningOperator;
  let client: Client;
  let own: Client;
  const subjects = [{ apiGroup: ClusterRole.group, kind: "User" as const, name: "limited" }];
  beforeAll(async () => {
    const [notBefore, notAfter] = [new Date(Date.now() - 1_000), new Date(Date.now() + 600_000)];
    const authority = await createCertificateAuthority("test", notBefore, notAfter);
    const certificate = await issueCertificate(authority, { commonName: "api", usage: "client", notBefore, notAfter });
    const crds = operator.resources.map(({ crd }) => crd);
    environment = await startTestEnvironment({ crds, webhookCertificate: () => certificate });
    client = createClient({ transport: environment.transport(), fieldManager: "test" });
    const metadata = { name: "limited" };
    await client.create(ClusterRole, { metadata, rules: [...clusterRulesOf(operator)] });
    const roleRef = { apiGroup: ClusterRole.group, kind: "ClusterRole" as const, name: "limited" };
    await client.create(ClusterRoleBinding, { metadata, roleRef, subjects });
    const transport = environment.transport({ username: "limited", groups: ["system:authenticated"] });
    own = createClient({ transport, fieldManager: "keelson-middleware" });
    running = await startOperator({
      operator,
      client: own,
      dataDir: "/nonexistent",
      webhooks: { clientAuthority: authority.certificate },
    });
  }, 120_000);
  afterAll(async () => {
    await running.stop();
    await environment.stop();
  }, 60_000);

  it("rejects a broken plugin with its position, including in an update, and admits a good one", async () => {
    const broken = changed(".Values.port | quote", ".Values.prot | quote");
    await expect(client.create(ConfigMap, broken)).rejects.toThrow(/pod\.yaml:8:61: .*\.Values\.prot: key not found/);
    const good = changed("", "");
    await client.create(ConfigMap, good);
    const body = { data: broken.data };
    const update = client.patch(ConfigMap, { namespace: "default", name: "web-v1.0.0" }, { type: "merge", body });
    await expect(update).rejects.toThrow(/\.Values\.prot: key not found/);
    expect(running.descriptions[0]).toMatch(/^admission webhooks on https:\/\/127\.0\.0\.1:\d+$/);
  });

  it("admits other ConfigMaps, and plugins of other programs", async () => {
    const data = { "plugin.yaml": "[" };
    await client.create(ConfigMap, { metadata: { name: "settings", namespace: "default" }, data });
    const krew = { "plugin.yaml": "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\n" };
    await client.create(ConfigMap, { metadata: { name: "tool-v1", namespace: "default" }, data: krew });
    await expect(client.create(ConfigMap, { metadata: { name: "tool-v2", namespace: "default" }, data })).rejects.toThrow(
      "plugin.yaml",
    );
  });

  it("admits plugins while the operator is away", async () => {
    await running.stop();
    const broken = changed(".Values.port | quote", ".Values.prot | quote");
    await client.create(ConfigMap, { ...broken, metadata: { name: "late-v1.0.0", namespace: "default" } });
  });

  it("finds the webhook behind a Service, whose certificates are in a Secret", async () => {
    const [namespace, name] = ["default", "keelson-middleware"];
    const metadata = { name: "limited", namespace };
    await client.create(Role, { metadata, rules: [...webhookCertificateRules(operator)] });
    const roleRef = { apiGroup: ClusterRole.group, kind: "Role" as const, name: "limited" };
    await client.create(RoleBinding, { metadata, roleRef, subjects });
    const webhooks = { service: { namespace, name }, host: "127.0.0.1", port: 0 };
    await using _ = await startOperator({ operator, client: own, dataDir: "/nonexistent", webhooks });
    const registered = await client.get(configurationKinds.validating, { name });
    expect(registered.webhooks).toMatchObject([
      { failurePolicy: "Ignore", clientConfig: { service: { namespace, name, port: 443 } } },
    ]);
    const secret = await client.get(Secret, { namespace, name: "keelson-middleware-certificates" });
    expect(secret.type).toBe("kubernetes.io/tls");
  });
});
