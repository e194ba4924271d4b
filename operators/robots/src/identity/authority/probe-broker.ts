import { TLSSocket } from "node:tls";
import { issueCertificate } from "@keelson/api-machinery/certificates";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { connectMqtt } from "../../protocol/connect-mqtt.ts";
import type { BrokerTrust } from "./authority-rotation.ts";
import type { RobotAuthority } from "./robot-authority.ts";

/** Common name of the certificate that asks a broker. It is not a valid robot id, and not the bridge, whose connection it would take. */
const probeCommonName = "system:robots-probe";

const timeoutMs = 10_000;
const dayMs = 86_400_000;

/** Connects to an external broker over TLS with a certificate of the newest authority. A broker that cannot be reached trusts nothing. */
export async function probeBroker(url: string, authority: RobotAuthority, clock: Clock): Promise<BrokerTrust> {
  const { state, bundle, trusted } = authority;
  const validity = { notBefore: new Date(0), notAfter: new Date(clock.now() + dayMs) };
  const { certificate, key } = await issueCertificate(state.next ?? state.authority, {
    ...{ commonName: probeCommonName, usage: "client" },
    ...validity,
  });
  const options = {
    clientId: probeCommonName,
    protocolVersion: 4,
    clean: true,
    reconnectPeriod: 0,
    manualConnect: true,
  } as const;
  const client = connectMqtt(url, {
    ...{ ...options, cert: certificate, key, ca: bundle, connectTimeout: timeoutMs },
    // The address of the broker does not matter here.
    checkServerIdentity: () => undefined,
  } as Parameters<typeof connectMqtt>[1]);
  const timeout = new AbortController();
  try {
    const acceptsNewest = await Promise.race([
      new Promise<boolean>((resolve) => {
        client.once("connect", () => resolve(true));
        client.on("error", () => resolve(false));
        client.once("close", () => resolve(false));
        client.connect();
      }),
      sleep(clock, timeoutMs, timeout.signal).then(() => false),
    ]);
    const peer = client.stream instanceof TLSSocket ? client.stream.getPeerX509Certificate() : undefined;
    const current = trusted.find((each) => each.certificate === state.authority.certificate)?.x509;
    const presentsCurrent = current !== undefined && peer?.checkIssued(current) === true && peer.verify(current.publicKey);
    return { acceptsNewest, presentsCurrent };
  } finally {
    timeout.abort();
    await client.endAsync(true);
  }
}
