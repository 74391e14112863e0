// This program holds the headers that tests have precompiled.
int main() {}
