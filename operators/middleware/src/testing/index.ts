export { connectResp } from "../agent/redis/resp-client.ts";
export { type LiveWriter, startLiveWriter, type WriterReport } from "./live-writer.ts";
