import { createSocket } from "node:dgram";
import { connect, isIPv6 } from "node:net";
import type { Clock } from "@keelson/api-machinery/time";
import { type Answer, type DecodedPacket, decode, encode, type Packet } from "dns-packet";

/** Options of {@link queryNameServers}. */
export interface NameServersOptions {
  /** Name servers in order of preference, as `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`. */
  readonly servers: readonly string[];
  readonly clock: Clock;
  /** Default `udp`. */
  readonly transport?: "udp" | "tcp";
}

/** Time for a name server to answer, in milliseconds. */
const serverTimeoutMs = 2000;
const dnsPort = 53;
/** Flag RD. */
const recursionDesired = 0x0100;
/** The length that precedes a message over TCP, in bytes (RFC 1035 section 4.2.2). */
const prefixBytes = 2;
/** Accepts answers of up to 1232 bytes, which are never fragmented (DNS Flag Day 2020). */
const largeAnswers: Answer = {
  ...{ type: "OPT", name: ".", udpPayloadSize: 1232 },
  ...{ extendedRcode: 0, ednsVersion: 0, flags: 0, flag_do: false, options: [] },
};

/**
 * Sends a DNS query to name servers in order. Resolves to the first answer, or to undefined if none answers. Each query has a socket, and
 * so a source port, of its own: answers are hard to forge. Throws if `message` is not a DNS message.
 */
export async function queryNameServers(message: Uint8Array, options: NameServersOptions): Promise<Uint8Array | undefined> {
  const query = decode(Buffer.from(message));
  const ask = options.transport === "tcp" ? queryOverTcp : queryOverUdp;
  for (const server of options.servers) {
    const answer = await ask(parseServer(server), message, query, options.clock);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/**
 * A query encoded anew with nothing but its question, and whether its sender accepts large answers (RFC 6891): a name server must not
 * read another name in the message than this resolver. Throws if `message` is not a DNS message.
 */
export function questionOnly(message: Uint8Array): Uint8Array {
  const { id, questions = [], additionals = [] } = decode(Buffer.from(message));
  const extended = additionals.filter(({ type }) => type === "OPT").slice(0, 1);
  return encode({
    ...{ type: "query", flags: recursionDesired, questions, additionals: extended.map(() => largeAnswers) },
    ...(id !== undefined && { id }),
  });
}

interface Server {
  readonly address: string;
  readonly port: number;
}

function queryOverUdp(
  { address, port }: Server,
  message: Uint8Array,
  query: Packet,
  clock: Clock,
): Promise<Buffer | undefined> {
  const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
  return new Promise((resolve) => {
    const finish = (answer?: Buffer): void => {
      timer.cancel();
      socket.removeAllListeners().on("error", () => {});
      socket.close();
      resolve(answer);
    };
    const timer = clock.setTimer(serverTimeoutMs, () => finish());
    socket.on("error", () => finish());
    socket.on("message", (answer) => {
      if (isAnswerTo(query, answer)) finish(answer);
    });
    socket.connect(port, address, () => socket.send(message));
  });
}

function queryOverTcp(
  { address, port }: Server,
  message: Uint8Array,
  query: Packet,
  clock: Clock,
): Promise<Buffer | undefined> {
  const socket = connect(port, address);
  return new Promise((resolve) => {
    let received: Buffer = Buffer.alloc(0);
    const finish = (answer?: Buffer): void => {
      timer.cancel();
      socket.removeAllListeners().on("error", () => {});
      socket.destroy();
      resolve(answer);
    };
    const timer = clock.setTimer(serverTimeoutMs, () => finish());
    socket.on("error", () => finish());
    socket.on("close", () => finish());
    socket.on("data", (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      const answer = messageOf(received);
      if (answer !== undefined) finish(isAnswerTo(query, answer) ? answer : undefined);
    });
    socket.on("connect", () => socket.write(withLength(message)));
  });
}

/** A message as it is sent over TCP: with its length in front. */
export function withLength(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt16BE(message.length);
  return Buffer.concat([prefix, message]);
}

/** The first message of bytes received over TCP; undefined until it is complete. */
export function messageOf(received: Buffer): Buffer | undefined {
  if (received.length < prefixBytes) return undefined;
  const end = prefixBytes + received.readUInt16BE(0);
  return received.length < end ? undefined : received.subarray(prefixBytes, end);
}

function isAnswerTo(query: Packet, message: Buffer): boolean {
  let answer: DecodedPacket;
  try {
    answer = decode(message);
  } catch {
    return false;
  }
  const [asked, answered] = [query.questions?.[0], answer.questions?.[0]];
  return (
    answer.type === "response" &&
    answer.id === query.id &&
    asked?.type === answered?.type &&
    asked?.name.toLowerCase() === answered?.name.toLowerCase()
  );
}

function parseServer(server: string): Server {
  const [, bracketed, v4, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(server) ?? [];
  return { address: bracketed ?? v4 ?? server, port: Number(port ?? dnsPort) };
}
