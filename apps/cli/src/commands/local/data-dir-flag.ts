import { textFlag } from "@keelson/operator/flags";

/** `--data-dir` of commands that act on the data of `keelson up`. */
export const dataDirFlag = textFlag({
  name: "data-dir",
  value: "DIR",
  description: "data directory of `keelson up`",
  default: ".keelson",
  env: "KEELSON_DATA_DIR",
});
