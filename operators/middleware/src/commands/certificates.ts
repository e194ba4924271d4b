import { randomUUID, X509Certificate } from "node:crypto";
import { ignoreNotFound } from "@keelson/api-machinery";
import { ConfigMap, Secret } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag } from "@keelson/operator";
import { App } from "../api/app.ts";
import { annotations, authorityKey, authorityName, certificateSecretName } from "../api/names.ts";
import { namespaceFlag } from "./app-flags.ts";
import { withErrors } from "./with-errors.ts";

/** `keelson app certificates show | rotate`. */
export const certificatesCommand: CommandDefinition = {
  name: "certificates",
  description: "show the TLS certificates of an App, or rotate them without a restart",
  args: ["show|rotate", "APP"],
  flags: [
    namespaceFlag,
    outputFlag,
    { name: "authority", description: "rotate: replace the authority too; takes two grace periods" },
  ],
  run: (context) => withErrors(context, runAction),
};

async function runAction(context: CommandContext): Promise<number> {
  const [action, name = ""] = context.args;
  const namespace = typeof context.flags["namespace"] === "string" ? context.flags["namespace"] : "default";
  const client = await context.client();
  if (action !== "show" && action !== "rotate") {
    context.stderr.write(`${JSON.stringify(action)} must be show or rotate\n`);
    return 2;
  }
  const { spec } = await client.get(App, { namespace, name });
  const published = await ignoreNotFound(client.get(ConfigMap, { namespace, name: authorityName(name) }));
  if (published === undefined) {
    context.stderr.write(`App ${name} has no certificates: set spec.tls.mode to prefer\n`);
    return 1;
  }
  if (action === "rotate") {
    const request = JSON.stringify({ id: randomUUID(), authority: context.flags["authority"] === true });
    const body = { metadata: { annotations: { [annotations.certificateControl]: request } } };
    await client.patch(App, { namespace, name }, { type: "merge", body });
    context.stdout.write(
      formatResult(context, { requested: true }, () => `requested; see keelson app certificates show ${name}\n`),
    );
    return 0;
  }
  const secretName = spec.tls?.secretName ?? certificateSecretName(name);
  const secret = await ignoreNotFound(client.get(Secret, { namespace, name: secretName }));
  const authorities = (published.data?.[authorityKey] ?? "").split(/(?=-----BEGIN)/).flatMap(describeCertificate);
  const [certificate] = describeCertificate(Buffer.from(secret?.data?.["tls.crt"] ?? "", "base64").toString());
  const result = { authorities, secret: secretName, ...(certificate === undefined ? {} : { certificate }) };
  const describe = (): string =>
    [
      ...authorities.map(({ subject, expires }) => `authority ${subject}: expires ${expires}`),
      certificate === undefined
        ? `Secret ${secretName}: no certificate`
        : `certificate of Secret ${secretName}: expires ${certificate.expires}, valid for ${certificate.names}`,
      "",
    ].join("\n");
  context.stdout.write(formatResult(context, result, describe));
  return 0;
}

function describeCertificate(pem: string): readonly { subject: string; names: string; expires: string }[] {
  if (pem.trim() === "") return [];
  const { subject, subjectAltName = "", validTo } = new X509Certificate(pem);
  const names = subjectAltName.replaceAll(/(DNS|IP Address):/g, "");
  return [{ subject, names, expires: formatTime(Date.parse(validTo)) }];
}
