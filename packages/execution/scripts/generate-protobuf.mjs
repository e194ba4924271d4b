// Generates src/containerd/generated from proto/; with --check only says whether that is as it would be generated (exit status 1 if not).
import { resolve } from "node:path";
import { generateProtobuf } from "../../../scripts/protobuf.mjs";

generateProtobuf(resolve(import.meta.dirname, ".."), "src/containerd/generated");
