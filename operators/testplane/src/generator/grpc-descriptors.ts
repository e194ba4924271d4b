import { type DescService, fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { type CallOptions, type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { GrpcSessions } from "@keelson/sandbox/grpc";
import { ServerReflection } from "../generated/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../generated/grpc/reflection/v1alpha/reflection_pb.ts";

/** Maximum proto files that a service may need. */
const maxFiles = 200;
/** Maximum size of an answer. */
const maxAnswerBytes = 4 * 1_048_576;

/** The files of a `google.protobuf.FileDescriptorSet` in base64, those that others import first. Rejects if it is malformed. */
export async function describedFiles(base64: string): Promise<readonly FileDescriptorProto[]> {
  return inImportOrder(fromBinary(FileDescriptorSetSchema, Buffer.from(base64, "base64")).file);
}

/** What {@link reflectedFiles} asks for. */
export interface ReflectionRequest {
  /** Scheme, host and port of the server. */
  readonly origin: string;
  readonly insecureSkipTlsVerify: boolean;
  /** Sent with each question, for servers that authenticate every call. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Maximum duration of all questions. */
  readonly timeoutMs: number;
  /** Full name of a service. */
  readonly symbol: string;
}

/**
 * The files that a service needs, those that others import first, by the server's reflection (v1, or v1alpha of older servers). Rejects
 * if the server has no reflection, or does not know the service.
 */
export async function reflectedFiles(request: ReflectionRequest): Promise<readonly FileDescriptorProto[]> {
  const { origin, insecureSkipTlsVerify, timeoutMs, symbol, metadata } = request;
  const options: CallOptions = { headers: metadata, signal: AbortSignal.timeout(timeoutMs) };
  const sessions = new GrpcSessions(origin, {}, { rejectUnauthorized: !insecureSkipTlsVerify });
  const transport = createGrpcTransport({
    baseUrl: origin,
    readMaxBytes: maxAnswerBytes,
    sessionManager: sessions,
  });
  try {
    return await collect(createClient(ServerReflection, transport), symbol, options);
  } catch (error) {
    if (ConnectError.from(error).code !== Code.Unimplemented) throw error;
    // Both versions have the same messages.
    return await collect(
      createClient(ServerReflectionAlpha as DescService as typeof ServerReflection, transport),
      symbol,
      options,
    );
  } finally {
    sessions.abort();
  }
}

type Question = { readonly case: "fileContainingSymbol" | "fileByFilename"; readonly value: string };

async function collect(
  client: Client<typeof ServerReflection>,
  symbol: string,
  options: CallOptions,
): Promise<readonly FileDescriptorProto[]> {
  const files = new Map<string, FileDescriptorProto>();
  const questions: Question[] = [{ case: "fileContainingSymbol", value: symbol }];
  for (let next = questions.shift(); next !== undefined; next = questions.shift()) {
    if (next.case === "fileByFilename" && files.has(next.value)) continue;
    for (const file of await ask(client, next, options)) {
      files.set(file.name, file);
      if (files.size > maxFiles) throw new Error(`needs more than ${maxFiles} proto files`);
      questions.push(...file.dependency.map((name) => ({ case: "fileByFilename", value: name }) as const));
    }
    if (next.case === "fileByFilename" && !files.has(next.value)) throw new Error(`${next.value}: not found by reflection`);
  }
  return inImportOrder([...files.values()]);
}

async function ask(
  client: Client<typeof ServerReflection>,
  question: Question,
  options: CallOptions,
): Promise<readonly FileDescriptorProto[]> {
  async function* requests() {
    yield { messageRequest: question };
  }
  for await (const { messageResponse } of client.serverReflectionInfo(requests(), options)) {
    if (messageResponse.case === "errorResponse")
      throw new Error(`${question.value}: ${messageResponse.value.errorMessage || `code ${messageResponse.value.errorCode}`}`);
    if (messageResponse.case !== "fileDescriptorResponse") break;
    return messageResponse.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
  }
  throw new Error(`${question.value}: reflection did not respond`);
}

/** Sorts files so that each is behind those that it imports. */
function inImportOrder(files: readonly FileDescriptorProto[]): readonly FileDescriptorProto[] {
  const byName = new Map(files.map((file) => [file.name, file]));
  const sorted = new Set<FileDescriptorProto>();
  const entered = new Set<FileDescriptorProto>();
  const visit = (file: FileDescriptorProto): void => {
    if (entered.has(file)) return;
    entered.add(file);
    for (const name of file.dependency) {
      const dependency = byName.get(name);
      if (dependency !== undefined) visit(dependency);
    }
    sorted.add(file);
  };
  for (const file of files) visit(file);
  return [...sorted];
}
