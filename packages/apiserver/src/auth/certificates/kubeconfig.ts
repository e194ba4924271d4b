import { writePrivate } from "./pki.ts";

/** The content of a kubeconfig. Certificates and keys are in PEM. */
export interface KubeconfigOptions {
  /** `https://127.0.0.1:6443`. */
  readonly server: string;
  readonly authority: string;
  /** Name of cluster and context. Default `keelson`. */
  readonly name?: string;
  /** Name of the user's entry. Default `keelson-admin`. */
  readonly userName?: string;
  /** Namespace of the context. Default `default`. */
  readonly namespace?: string;
  readonly credentials: { readonly certificate: string; readonly key: string } | { readonly token: string };
}

/** Formats a kubeconfig (v1 Config) with one cluster, user and context and embedded credentials. */
export function kubeconfigYaml(options: KubeconfigOptions): string {
  const name = quote(options.name ?? "keelson");
  const user = quote(options.userName ?? "keelson-admin");
  const credentials =
    "token" in options.credentials
      ? [`      token: ${quote(options.credentials.token)}`]
      : [
          `      client-certificate-data: ${base64(options.credentials.certificate)}`,
          `      client-key-data: ${base64(options.credentials.key)}`,
        ];
  return [
    "apiVersion: v1",
    "kind: Config",
    "clusters:",
    `  - name: ${name}`,
    "    cluster:",
    `      server: ${quote(options.server)}`,
    `      certificate-authority-data: ${base64(options.authority)}`,
    "users:",
    `  - name: ${user}`,
    "    user:",
    ...credentials,
    "contexts:",
    `  - name: ${name}`,
    "    context:",
    `      cluster: ${name}`,
    `      user: ${user}`,
    `      namespace: ${quote(options.namespace ?? "default")}`,
    `current-context: ${name}`,
    "",
  ].join("\n");
}

/** Writes {@link kubeconfigYaml} to `path` atomically, readable by its owner only. */
export async function writeKubeconfig(path: string, options: KubeconfigOptions): Promise<void> {
  await writePrivate(path, kubeconfigYaml(options));
}

/** JSON strings are YAML strings. Plain names stay unquoted for readability. */
function quote(value: string): string {
  return /^[a-z][a-z0-9-]*$/.test(value) && !["true", "false", "null", "yes", "no", "on", "off"].includes(value)
    ? value
    : JSON.stringify(value);
}

function base64(pem: string): string {
  return Buffer.from(pem, "utf8").toString("base64");
}
