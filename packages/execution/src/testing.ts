export { createBusyboxImage } from "./testing/busybox-image.ts";
export { freePort } from "./testing/free-port.ts";
export { createProgramImage } from "./testing/program-image.ts";
export { startLocalContainerd } from "./testing/local-containerd.ts";
export type { LocalContainerd } from "./testing/local-containerd.ts";
export { warmUp, whenWarm } from "./testing/warm-slots.ts";
export { tarArchive, type TarEntry } from "./testing/tar-archive.ts";
export { canCreateDevices, createZeroDevice } from "./testing/test-devices.ts";
