import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createRevocationList } from "@keelson/api-machinery/certificates";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { invalidFlag, listFlag, portFlag, textFlag } from "@keelson/operator/flags";
import { Robot } from "../../api/robot.ts";
import { execServerName } from "../../exec/exec-frames.ts";
import { brokerCertificate } from "../../identity/broker-certificate.ts";
import { mosquittoFiles } from "../../identity/mosquitto-files.ts";
import { ensureRobotAuthority } from "../../identity/authority/authority-store.ts";
import { revokedSerials } from "../../identity/robot-identity.ts";
import { replaceFile } from "./replace-file.ts";
import { namespaceFlag } from "../flags.ts";

const yearMs = 365 * 86_400_000;

const flags = {
  dir: textFlag({
    name: "dir",
    value: "DIR",
    description: "directory for the files; created if it does not exist",
    required: true,
  }),
  host: listFlag({ name: "host", value: "NAME", description: "host name or address of the broker, for its certificate" }),
  bindAddress: textFlag({ name: "bind-address", value: "ADDRESS", description: "listen address of the broker (default: all)" }),
  port: portFlag({
    name: "port",
    description: "port for robots that have joined, and for the bridge",
    default: "8883",
    min: 1,
  }),
  joinPort: portFlag({ name: "join-port", description: "port at which robots join", default: "8884", min: 1 }),
};

/** `keelson robots mosquitto-config --dir DIR`. */
export const mosquittoConfigCommand: CommandDefinition = {
  name: "mosquitto-config",
  description: "write configuration, access control, certificates and revocation list for a Mosquitto broker",
  flags: [namespaceFlag, ...Object.values(flags)],
  run,
};

async function run(context: CommandContext): Promise<number> {
  const { flags: values, stdout, stderr, clock, signal } = context;
  const namespace = namespaceFlag.read(values);
  const reserved = flags.host.read(values).find((host) => host.toLowerCase().replace(/\.+$/, "") === execServerName);
  if (reserved !== undefined) throw invalidFlag(flags.host, reserved, "must not be the name of the exec server's certificate");
  const client = await context.client();
  try {
    const now = clock.now();
    const authority = await ensureRobotAuthority({ client, namespace, now, fieldManager: "keelson-robots-mosquitto" });
    const { items: robots } = await client.list(Robot, { namespace, signal });
    const { revoked, damaged } = revokedCertificates(robots, now);
    const dir = resolve(flags.dir.read(values));
    const hosts = [...new Set(["localhost", "127.0.0.1", ...flags.host.read(values)])];
    const server = await brokerCertificate(authority.brokerAuthority, { dir, hosts, now });
    const entries = revoked.map((serial) => ({ serial, revokedAt: new Date(now) }));
    const validity = { thisUpdate: new Date(now - 3_600_000), nextUpdate: new Date(now + yearMs) };
    // Mosquitto needs a list of every authority that it trusts.
    const lists = await Promise.all(authority.trusted.map((each) => createRevocationList(each, entries, validity)));
    const [port, joinPort] = [flags.port.read(values), flags.joinPort.read(values)];
    const bindAddress = flags.bindAddress.read(values);
    const files: Readonly<Record<string, string>> = {
      ...mosquittoFiles({
        ...{ dir, port, joinPort },
        ...(bindAddress === undefined ? {} : { bindAddress }),
        pins: authority.trusted.map(({ pin }) => pin),
        salt: randomBytes(12),
      }),
      "ca.crt": authority.bundle,
      "crl.pem": lists.join(""),
      "server.crt": server.certificate + authority.brokerAuthority.certificate,
      "server.key": server.key,
    };
    await mkdir(dir, { recursive: true });
    for (const [name, content] of Object.entries(files)) {
      const isSecret = name === "server.key" || name === "join-users";
      await replaceFile(join(dir, name), content, isSecret ? 0o600 : 0o644);
    }
    const robotHost = hosts.at(-1) ?? "localhost";
    stdout.write(
      [
        `Wrote ${Object.keys(files).join(", ")} to ${dir}; ${revoked.length} revoked certificates.`,
        `Start:   chown -R mosquitto ${dir} && mosquitto -c ${dir}/mosquitto.conf (as root; Mosquitto then runs as the user mosquitto)`,
        `Bridge:  keelson up --mqtt-url mqtts://${robotHost}:${port}`,
        `Robots:  keelson robots agent --broker-url mqtts://${robotHost}:${port} --join-url mqtts://${robotHost}:${joinPort}`,
        "After keelson robots revoke, run this command again and reload Mosquitto: pkill -HUP -x mosquitto",
        "",
      ].join("\n"),
    );
    for (const name of damaged) {
      stderr.write(
        `robot ${name}: status.identity.certificate is damaged, so its certificates are not in the revocation list; delete the Robot and join again\n`,
      );
    }
    return damaged.length === 0 ? 0 : 1;
  } finally {
    await client.close();
  }
}

/** Serial numbers to revoke, and the names of robots whose certificates cannot be read. */
function revokedCertificates(
  robots: readonly DeepReadonly<Robot>[],
  now: number,
): { readonly revoked: readonly string[]; readonly damaged: readonly string[] } {
  const revoked: string[] = [];
  const damaged: string[] = [];
  for (const robot of robots) {
    try {
      revoked.push(...revokedSerials(robot, now));
    } catch {
      damaged.push(robot.metadata.name ?? "");
    }
  }
  return { revoked, damaged };
}
