import type { Clock } from "@keelson/api-machinery/time";
import { queryNameServers, questionOnly } from "@keelson/execution/dns";
import { type Answer, decode, encode, type Packet, type Question } from "dns-packet";
import type { NameIndex } from "./name-index.ts";
import { type OwnNetworks, type Resolution, resolveName, responseCodes } from "./resolve-name.ts";

/** Options of {@link answerQuery}. */
export interface AnswerOptions {
  /** The names of the cluster at this time. */
  readonly index: () => NameIndex;
  readonly networks: OwnNetworks;
  /** Name servers for all other names, in order, as `ADDRESS` or `ADDRESS:PORT`. */
  readonly upstreams: () => readonly string[];
  readonly clock: Clock;
}

/** Flags (RFC 1035 section 4.1.1). */
const flags = { authoritative: 0x0400, truncated: 0x0200, recursionDesired: 0x0100, recursionAvailable: 0x0080 } as const;
/** The size of UDP messages of clients that name none, and the size beyond which messages may be fragmented. */
const [minUdpBytes, maxUdpBytes] = [512, 1232];
const maxUpstreams = 3;
/** Transfers of zones, and questions for all types. */
const refusedTypes = ["AXFR", "IXFR", "ANY"];

/** Answers a query. Undefined if it must not be answered, such as a response. Throws if it is not a DNS message. */
export async function answerQuery(
  message: Buffer,
  transport: "udp" | "tcp",
  options: AnswerOptions,
): Promise<Buffer | undefined> {
  const query = decode(message);
  if (query.type !== "query") return undefined;
  const limit = transport === "tcp" ? Number.POSITIVE_INFINITY : udpLimit(query);
  const [question, ...others] = query.questions ?? [];
  const opcode = ((query.flags ?? 0) >> 11) & 15;
  if (opcode !== 0) return fitting(query, { code: responseCodes.notImplemented }, limit);
  if (question === undefined || others.length > 0 || !isServed(question)) {
    return fitting(query, { code: responseCodes.refused }, limit);
  }
  const found = resolveName(options.index(), options.networks, question.name, question.type);
  if (found.outside === undefined) return fitting(query, { ...found, isOwn: true }, limit);
  const answer = await forward(query, { ...question, name: found.outside }, transport, options);
  if (answer === undefined) return fitting(query, { code: responseCodes.servfail }, limit);
  const answers = [...found.answers, ...(answer.answers ?? [])];
  const additionals = (answer.additionals ?? []).filter(({ type }) => type !== "OPT");
  const parts = { answers, additionals, ...(answer.authorities && { authorities: answer.authorities }) };
  return fitting(query, { ...parts, code: (answer.flags ?? 0) & 15, isTruncated: answer.flag_tc }, limit);
}

const isServed = (question: Question): boolean =>
  (question.class ?? "IN") === "IN" && !refusedTypes.includes(question.type) && /^[\x21-\x7e]*$/.test(question.name);

function udpLimit({ additionals = [] }: Packet): number {
  const extension = additionals.find(({ type }) => type === "OPT");
  const size = extension?.type === "OPT" ? extension.udpPayloadSize : minUdpBytes;
  return Math.min(Math.max(size, minUdpBytes), maxUdpBytes);
}

/** Asks the other name servers, with a query encoded anew: they must not read another name in it than this server. */
async function forward(
  query: Packet,
  question: Question,
  transport: "udp" | "tcp",
  { upstreams, clock }: AnswerOptions,
): Promise<ReturnType<typeof decode> | undefined> {
  const { id = 0, additionals = [] } = query;
  const message = questionOnly(encode({ type: "query", id, questions: [question], additionals }));
  const servers = upstreams().slice(0, maxUpstreams);
  const answer = await queryNameServers(message, { servers, clock, transport });
  return answer === undefined ? undefined : decode(Buffer.from(answer));
}

interface ResponseParts extends Partial<Omit<Resolution, "outside">> {
  readonly code: number;
  readonly isOwn?: boolean;
  readonly isTruncated?: boolean;
}

/** Encodes a response. Without its records if it is longer than `limit`, so that the client repeats the query over TCP. */
function fitting(query: Packet, parts: ResponseParts, limit: number): Buffer {
  const { code, isOwn = false, isTruncated = false, answers = [], authorities = [], additionals = [] } = parts;
  const extension = (query.additionals ?? [])
    .filter(({ type }) => type === "OPT")
    .slice(0, 1)
    .map(() => ownExtension);
  const head = {
    type: "response" as const,
    ...(query.id !== undefined && { id: query.id }),
    ...(query.questions !== undefined && { questions: query.questions }),
  };
  const bits =
    ((query.flags ?? 0) & flags.recursionDesired) |
    flags.recursionAvailable |
    (isOwn ? flags.authoritative : 0) |
    (isTruncated ? flags.truncated : 0) |
    code;
  const records = { answers: [...answers], authorities: [...authorities] };
  const full = encode({ ...head, flags: bits, ...records, additionals: [...additionals, ...extension] });
  if (full.length <= limit) return full;
  if (answers.length > 0 && additionals.length > 0) return fitting(query, { ...parts, additionals: [] }, limit);
  return encode({ ...head, flags: bits | flags.truncated, additionals: extension });
}

const ownExtension: Answer = {
  ...{ type: "OPT", name: ".", udpPayloadSize: maxUdpBytes },
  ...{ extendedRcode: 0, ednsVersion: 0, flags: 0, flag_do: false, options: [] },
};
