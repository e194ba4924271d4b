/* Creates the file up-RANK in the folder of the first argument once every rank is connected, and sleeps. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
  int rank;
  char path[4096];
  FILE *file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  snprintf(path, sizeof path, "%s/up-%d", argc > 1 ? argv[1] : ".", rank);
  file = fopen(path, "w");
  if (file != NULL) fclose(file);
  sleep(600);
  MPI_Finalize();
  return 0;
}
