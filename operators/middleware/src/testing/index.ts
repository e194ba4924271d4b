export { connectResp } from "../agent/resp-client.ts";
export { type LiveWriter, startLiveWriter, type WriterReport } from "./live-writer.ts";
