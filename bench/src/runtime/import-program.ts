/* Imports the package that it is given and prints how long that took, in milliseconds. */
const startedAt = performance.now();
await import(process.argv[2] ?? "");
console.log(JSON.stringify({ ms: performance.now() - startedAt }));
