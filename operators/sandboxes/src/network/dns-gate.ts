import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { BlockList } from "node:net";
import type { Clock } from "@keelson/api-machinery/time";
import { queryNameServers, questionOnly } from "@keelson/execution/dns";
import { decode, encode, type Packet } from "dns-packet";
import { privateNetworks } from "./firewall-rules.ts";
import { type NetworkPolicy, type NetworkRule, rulesFor } from "./network-policy.ts";

/*
 * The resolver of one sandbox, on its gateway's address. It forwards queries to the host's resolvers. With an allow-list it answers listed
 * names only, and an answer leaves after the firewall admits its addresses.
 */

/** Options of {@link startDnsGate}. */
export interface DnsGateOptions {
  /** Address to listen on. */
  readonly address: string;
  /** Default 53. */
  readonly port?: number;
  readonly policy: NetworkPolicy;
  /** Name servers to forward to, as `ADDRESS` or `ADDRESS:PORT`. */
  readonly servers: readonly string[];
  /** Lets the sandbox reach the addresses of a listed name. */
  readonly admit: (addresses: readonly string[], rules: readonly NetworkRule[], seconds: number) => Promise<void>;
  /** Called with a name that was refused. */
  readonly onDenied: (name: string) => void;
  readonly clock: Clock;
}

/** A running resolver. */
export interface DnsGate extends AsyncDisposable {
  stop(): Promise<void>;
}

const maxQueries = 64;
/** Minimum time for which an address remains admitted, in seconds: programs cache addresses for longer than their TTL. */
const minAdmittedSeconds = 300;
/** Response codes (RFC 1035 section 4.1.1). */
const responseCodes = { servfail: 2, refused: 5 } as const;
const dnsPort = 53;

const unroutable = new BlockList();
for (const network of privateNetworks) {
  const [address = "", length = "32"] = network.split("/");
  unroutable.addSubnet(address, Number(length), "ipv4");
}

/** Starts the resolver of a sandbox. Rejects if it cannot listen. */
export async function startDnsGate(options: DnsGateOptions): Promise<DnsGate> {
  const gate = new UdpDnsGate(options);
  await gate.listen();
  return gate;
}

class UdpDnsGate implements DnsGate {
  readonly #options: DnsGateOptions;
  readonly #socket: Socket = createSocket("udp4");
  readonly #stopping = new AbortController();
  #queries = 0;

  constructor(options: DnsGateOptions) {
    this.#options = options;
  }

  async listen(): Promise<void> {
    this.#socket.on("message", (message, sender) => void this.#serve(message, sender));
    this.#socket.bind(this.#options.port ?? dnsPort, this.#options.address);
    await once(this.#socket, "listening");
    // Errors of a single send, such as a sandbox that has exited, do not end the resolver.
    this.#socket.on("error", () => {});
  }

  async stop(): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#stopping.abort();
    await new Promise<void>((resolve) => this.#socket.close(() => resolve()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #serve(message: Buffer, sender: RemoteInfo): Promise<void> {
    // Clients repeat a query that is dropped.
    if (this.#queries >= maxQueries) return;
    this.#queries += 1;
    try {
      const answer = await this.#answer(message);
      if (answer !== undefined && !this.#stopping.signal.aborted) this.#socket.send(answer, sender.port, sender.address);
    } catch {
      // Not a DNS message.
    } finally {
      this.#queries -= 1;
    }
  }

  async #answer(message: Buffer): Promise<Uint8Array | undefined> {
    const query = decode(message);
    const [question] = query.questions ?? [];
    if (query.type !== "query" || question === undefined || query.questions?.length !== 1) return undefined;
    const { policy, onDenied } = this.#options;
    const name = plainName(question.name);
    const rules = rulesFor(name, policy.allow);
    if (policy.mode !== "internet" && rules.length === 0) {
      onDenied(name);
      return response(query, responseCodes.refused);
    }
    // Sandboxes have no IPv6 addresses.
    if (question.type === "AAAA") return response(query, 0);
    // Encoded anew: a name server must not read another name in the message than this resolver.
    const { servers, clock } = this.#options;
    const answer = await queryNameServers(policy.mode === "internet" ? message : questionOnly(message), { servers, clock });
    if (answer === undefined) return response(query, responseCodes.servfail);
    if (policy.mode === "internet") return answer;
    return this.#admit(query, answer, name, rules);
  }

  async #admit(query: Packet, answer: Uint8Array, name: string, rules: readonly NetworkRule[]): Promise<Uint8Array> {
    const records = (decode(Buffer.from(answer)).answers ?? []).flatMap((each) => (each.type === "A" ? [each] : []));
    const addresses = records.map(({ data }) => data);
    // A name that resolves to a private address would open the host's networks; a CIDR rule is the way to request them.
    if (addresses.some((address) => unroutable.check(address))) {
      this.#options.onDenied(name);
      return response(query, responseCodes.refused);
    }
    if (addresses.length > 0) {
      const ttl = Math.min(...records.map((each) => each.ttl ?? 0));
      await this.#options.admit(addresses, rules, Math.max(ttl, minAdmittedSeconds));
    }
    return answer;
  }
}

/** A name that no rule lists. */
const invalidName = "(invalid name)";

/** A name in lower case; {@link invalidName} if it has other characters than those of host names, which could look like a listed name. */
const plainName = (name: string): string => (/^[\w.-]+$/.test(name) ? name.toLowerCase() : invalidName);

/** An answer without records. The flags are RD and RA (RFC 1035 section 4.1.1), and the response code. */
function response({ id, questions }: Packet, code: number): Uint8Array {
  const flags = 0x0180 | code;
  return encode({ type: "response", ...(id !== undefined && { id }), flags, ...(questions !== undefined && { questions }) });
}
